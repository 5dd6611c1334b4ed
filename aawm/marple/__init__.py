"""Two agents, one house, one question: a method sees what both have done so far, and says which of them did it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
