"""A behaviour, a scenario, an event rule, an evaluation and a model from outside the package: what is refused."""


import numpy as np
import pytest

from aawm import schema
from aawm.data import open_trials
from aawm.errors import UsageError
from aawm.evaluation import Task, find_tasks, trial_set, register_task, single_goal
from aawm.events import own_events, register_rule
from aawm.events.labels import OWN_RULES
from aawm.sim import simulate

def test_a_scenario_from_outside_is_checked():
    for name, roles in (("random_mimic", ("hider", "static")), ("alone", ("static",)), ("word", "static")):
        with pytest.raises(UsageError):
            schema.register_scenario(name, roles, "hiding")
    schema.register_scenario("ghost_static", ("ghost", "static"), "haunting")
    try:
        with pytest.raises(UsageError, match="unknown role 'ghost'"):
            simulate("ghost_static", 0)
    finally:
        del schema.SCENARIO_ROLES["ghost_static"], schema.SCENARIO_BEHAVIOR["ghost_static"], schema.ROLES["ghost"]
    with pytest.raises(UsageError, match="unknown scenario .*ghost_static"):
        simulate("ghost_static", 0)


def test_a_rule_and_a_task_from_outside_are_checked(other_store):
    trials = open_trials(other_store)
    plan = single_goal(0).plan
    with pytest.raises(UsageError, match="measure of task 'odd'"):
        find_tasks(Task("odd", "none", "no such rule", plan))
    with pytest.raises(UsageError, match="one of the package's"):
        register_task(Task("pickup", "none", "goal", plan))
    register_rule("wide")(lambda states: np.ones(states.shape[:-3], dtype=bool))
    try:
        with pytest.raises(UsageError, match="must give bool"):
            own_events("wide", np.zeros((4, 10, 5, 7)))
        with pytest.raises(UsageError, match="is taken by"):
            register_rule("wide")(len)
        with pytest.raises(UsageError, match="unknown event rule"):
            own_events("narrow", np.zeros((4, 10, 5, 7)))
    finally:
        del OWN_RULES["wide"]
    unknown = trials.assign(scenario=("trial", np.full(9, "ghost_static")))
    with pytest.raises(UsageError, match="unknown scenario .*ghost_static"):
        trial_set(unknown, split=None).behavior  # noqa: B018
