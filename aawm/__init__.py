"""Trials of two robots and three objects, world models that imagine them, and rules that score what is imagined."""

__version__ = "0.1.0"

from typing import TYPE_CHECKING

from .on_demand import names_on_demand

if TYPE_CHECKING:
    from .data import generate, open_trials
    from .sim import simulate
    from .models import pretrained
    from .training import check_model, fit
    from .evaluation import evaluate

__getattr__, __dir__, __all__ = names_on_demand("aawm", {
    "data": "generate open_trials",
    "sim": "simulate",
    "models": "pretrained",
    "training": "check_model fit",
    "evaluation": "evaluate",
})  # fmt: skip
