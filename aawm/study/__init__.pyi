"Ask people what models are asked, in class or online, and score them by the same definitions."

from .build import STUDY_TASKS as STUDY_TASKS, build_study as build_study
from .houses import HouseItem as HouseItem, house_items as house_items
from .score import (
    read_answers as read_answers, read_key as read_key, sample_class as sample_class,
    score_study as score_study, simulate_answers as simulate_answers,
)
from .stimuli import StudyItem as StudyItem, study_items as study_items
from .tables import people_curves as people_curves, people_scores as people_scores
