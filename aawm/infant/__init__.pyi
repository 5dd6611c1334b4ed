"Short animations in which agents act as expected or not; a good model is more surprised by what surprises an infant."

from .bib_sets import MAKERS as MAKERS, Scene as Scene, maker as maker
from .drawing import draw as draw, frames as frames
from .episodes import (
    Batch as Batch, generate as generate, make_batch as make_batch,
    make_item as make_item, open_episodes as open_episodes, write_videos as write_videos,
)
from .filming import Take as Take, Trial as Trial, Video as Video
from .objects import (
    ObjectConfig as ObjectConfig, ObjectObserver as ObjectObserver,
    ObjectTransformer as ObjectTransformer,
)
from .observers import (
    CONTROLS as CONTROLS, OBSERVERS as OBSERVERS, Observer as Observer, make_observer as make_observer,
    observer as observer,
)
from .outside import score_answers as score_answers, write_requests as write_requests
from .reasoners import Bayesian as Bayesian, Ideal as Ideal
from .released import import_released as import_released
from .scores import (
    crossed_table as crossed_table, pair_table as pair_table,
    score as score, scored as scored, watch as watch,
)
from .stage import (
    BIB_SETS as BIB_SETS, ITEMS as ITEMS, OUTCOMES as OUTCOMES, SETS as SETS, SOCIAL_SETS as SOCIAL_SETS,
    TRAINING_SETS as TRAINING_SETS,
)
from .training import fit as fit, load_observer as load_observer, pretrained as pretrained, ship_observer as ship_observer
