"""Trials of two robots and three objects, world models that imagine them, and rules that score what is imagined."""

__version__ = "0.1.0"

from typing import TYPE_CHECKING

from .on_demand import document_pages, names_on_demand

if TYPE_CHECKING:
    from .data import generate as generate, open_trials as open_trials
    from .sim import simulate as simulate
    from .models import pretrained as pretrained
    from .training import check_model as check_model, fit as fit
    from .evaluation import Protocol as Protocol, difference as difference, evaluate as evaluate

document_pages()
__getattr__, __dir__, __all__ = names_on_demand("aawm", {
    "data": "generate open_trials",
    "sim": "simulate",
    "models": "pretrained",
    "training": "check_model fit",
    "evaluation": "Protocol difference evaluate",
})  # fmt: skip
