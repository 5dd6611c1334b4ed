"Does a model's rollout hold the events that really happened?"

from .claims import CLAIMS as CLAIMS, paper_ledger as paper_ledger
from .compare import compared as compared, difference as difference, verdict as verdict
from .results import (
    Evaluation as Evaluation, Results as Results, check_output as check_output, evaluate as evaluate,
    evaluate_each as evaluate_each, find_evaluations as find_evaluations, gather as gather,
    joined_outcomes as joined_outcomes, main_variant as main_variant, model_fields as model_fields,
    read_evaluation as read_evaluation, rescore as rescore, same_trials as same_trials, save as save,
    trained_words as trained_words,
)
from .rollouts import Rollouts as Rollouts, collect as collect, true_rollouts as true_rollouts
from .scores import Scorer as Scorer, score as score
from .tasks import (
    SCORINGS as SCORINGS, TASKS as TASKS, VISIT_TASKS as VISIT_TASKS, Protocol as Protocol,
    TrialSet as TrialSet, Scoring as Scoring, Task as Task, find_tasks as find_tasks, trial_set as trial_set,
    move as move, multi_goal as multi_goal, plan_tasks as plan_tasks, register_task as register_task,
    single_goal as single_goal, task_named as task_named,
)
from .visits import (
    BestFit as BestFit, IdealObserver as IdealObserver, VisitWorld as VisitWorld,
    choice_table as choice_table, fitted_rules as fitted_rules, read_past as read_past,
    rule_table as rule_table,
)
from .worlds import (
    ConstantVelocity as ConstantVelocity, CopyLast as CopyLast, Faced as Faced,
    NearestCarries as NearestCarries, TrueWorld as TrueWorld, roll_out as roll_out,
)
