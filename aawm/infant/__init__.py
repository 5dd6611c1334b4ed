"""Short animations in which agents act as expected or not; a good model is more surprised by what surprises an infant."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
