"""Trials of two robots and three objects, world models that imagine them, and rules that score what is imagined."""

__version__ = "0.1.0"

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
