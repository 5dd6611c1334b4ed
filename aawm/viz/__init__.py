"""All that draws, in one place: a look per model, the stage, the player, the paper's figures, and a way to save them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
