"""Trials of two robots and three objects, world models that imagine them, and rules that score what is imagined."""

__version__ = "0.1.0"

from .on_demand import names_on_demand

__getattr__, __dir__, __all__ = names_on_demand("aawm", {
    "data": "generate open_trials",
    "sim": "simulate",
    "models": "pretrained",
    "training": "check_model fit",
    "evaluation": "evaluate",
})  # fmt: skip
