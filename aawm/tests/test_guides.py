"""A behaviour, a scenario, an event rule, an evaluation and a model from outside the package: what is refused."""

import ast

import nbformat
import numpy as np
import pytest

from aawm import schema
from aawm.data import generate, open_trials
from aawm.errors import UsageError
from aawm.evaluation import Task, find_tasks, trial_set, register_task, single_goal
from aawm.events import own_events, register_rule
from aawm.events.labels import OWN_RULES
from aawm.sim import simulate
from aawm.tests.conftest import ROOT

PAGES = {
    "hider": "guides/01_a_new_behavior.ipynb",
    "hidden": "guides/02_a_new_event_rule.ipynb",
    "hiding": "guides/03_a_new_evaluation.ipynb",
    "glide": "models/10_your_own_model.ipynb",
}


def source(page):
    "The file that a page shows."
    cells = nbformat.read(ROOT / "nbs" / page, as_version=4).cells
    shown = next(cell.source for cell in cells if cell.cell_type == "code" and cell.source.startswith("source = '''"))
    return ast.literal_eval(ast.parse(shown).body[0].value).lstrip()


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_pages_are_short_and_stand_outside(page):
    text = source(page)
    assert len([line for line in text.splitlines() if line.strip()]) <= 36
    assert not any(word in text for word in ("aawm.schema.SCENARIO_ROLES[", "TASK_TABLE", "OWN_RULES", "MODELS["))


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


def test_a_rule_and_a_task_from_outside_are_checked(tmp_path):
    trials = open_trials(generate(tmp_path / "trials", 9, workers=1, progress=False))
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
            register_rule("wide")(source)
        with pytest.raises(UsageError, match="unknown event rule"):
            own_events("narrow", np.zeros((4, 10, 5, 7)))
    finally:
        del OWN_RULES["wide"]
    unknown = trials.assign(scenario=("trial", np.full(9, "ghost_static")))
    with pytest.raises(UsageError, match="unknown scenario .*ghost_static"):
        trial_set(unknown, split=None).behavior  # noqa: B018
