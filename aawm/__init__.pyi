"Trials of two robots and three objects, world models that imagine them, and rules that score what is imagined."

__version__: str

from . import data as data, evaluation as evaluation, models as models, sim as sim, training as training
from .data import generate as generate, open_trials as open_trials
from .evaluation import Protocol as Protocol, difference as difference, evaluate as evaluate
from .models import pretrained as pretrained
from .sim import simulate as simulate
from .training import check_model as check_model, fit as fit
