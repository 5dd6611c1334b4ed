"""Ask people what models are asked, in class or online, and score them by the same definitions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
