"Two agents, one house, one question: a method sees what both have done so far, and says which of them did it."

from .configurations import (
    read_configuration_file as read_configuration_file, read_configurations as read_configurations,
)
from .evidence import Evidence as Evidence, VARIANTS as VARIANTS, look as look
from .furnishing import draw_house as draw_house, floor_plan as floor_plan
from .houses import House as House, golden_house as golden_house
from .inference import (
    evaluate as evaluate, exact as exact, exact_method as exact_method,
    fewest_wasted_moves as fewest_wasted_moves, holds_query as holds_query,
)
from .missions import (
    MISSIONS as MISSIONS, Mission as Mission, SCENARIOS as SCENARIOS, Scenario as Scenario,
    mission as mission, program as program,
)
from .pairs import (
    Pair as Pair, dataset_card as dataset_card, draw_pair as draw_pair, generate_pairs as generate_pairs,
    open_pairs as open_pairs, verify_pairs as verify_pairs,
)
from .planner import Run as Run, plan as plan
from .scores import (
    combine as combine, curves as curves, evidence_needed as evidence_needed,
    rollout_steps as rollout_steps, score_pairs as score_pairs, summary as summary,
)
from .vocabulary import ACTIONS as ACTIONS, FURNITURE as FURNITURE, OBJECTS as OBJECTS, ROOMS as ROOMS
from .worlds import World as World
