"""A behaviour, a scenario, an event rule, an evaluation and a model from outside the package, as the worked pages show them."""

import ast
import os
import subprocess
import sys

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

IN_ONE_FIGURE = """
import hiding
from aawm.data import open_trials, store_trials
from aawm.evaluation import Protocol, evaluate, gather
from aawm.models import build
from aawm.schema import SCENARIOS
from aawm.sim import simulate
from aawm.viz import FIG3, Panel, fig3

raws = [simulate(scenario, seed) for seed in range(12) for scenario in ("gathering_static", "hider_static")]
trials = open_trials(store_trials("trials", raws))
models = [build("glide:Glide"), build("multistep_predictor", embedding_size=16, recurrent_size=16, hidden_size=16)]
tasks = ["single_goal", "hiding_0"]
results = gather(evaluate(model, trials, Protocol(tasks=tasks, split=None), device="cpu", progress=False) for model in models)
figure, table = fig3(results.scores, panels=(*FIG3, Panel("D", "Hiding", "hiding_0", says="hidden")))
figure.savefig("fig3.png")
print(len(SCENARIOS), sorted(set(table.label)), sorted(set(table.title)), sorted(set(results.scores.behavior)))
print(table.ceiling[table.task == "hiding_0"].min(), [axes.get_xlabel().split(",")[0] for axes in figure.axes])
"""


def source(page):
    "The file that a page shows."
    cells = nbformat.read(ROOT / "nbs" / page, as_version=4).cells
    shown = next(
        cell.source for cell in cells if cell.cell_type == "code" and cell.source.startswith("source = '''")
    )
    return ast.literal_eval(ast.parse(shown).body[0].value).lstrip()


@pytest.mark.slow
def test_all_of_it_in_figure_3(tmp_path):
    for name, page in PAGES.items():
        (tmp_path / f"{name}.py").write_text(source(page))
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE_FIGURE], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=1800
    )
    assert done.returncode == 0, done.stderr[-3000:]
    names, ends = done.stdout.splitlines()[-2:]
    # those without trials say so
    titles = "['5 steps later', 'Hiding', 'Multi goal: 2nd', 'Multi goal: 3rd', 'Single goal']"
    assert names == f"9 ['Glide', 'Multistep Predictor'] {titles} ['all', 'hiding', 'single-step']"
    assert ends == "1.0 ['delivered', 'delivered', 'delivered', 'delivered', 'hidden']" and (
        tmp_path / "fig3.png"
    ).stat().st_size > 10000


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_pages_are_short_and_stand_outside(page):
    text = source(page)
    assert len([line for line in text.splitlines() if line.strip()]) <= 36
    assert not any(
        word in text for word in ("aawm.schema.SCENARIO_ROLES[", "TASK_TABLE", "OWN_RULES", "MODELS[")
    )


def test_a_scenario_from_outside_is_checked():
    for name, roles in (("random_mimic", ("hider", "static")), ("alone", ("static",)), ("word", "static")):
        with pytest.raises(UsageError):
            schema.register_scenario(name, roles, "hiding")
    schema.register_scenario("ghost_static", ("ghost", "static"), "haunting")
    try:
        with pytest.raises(UsageError, match="unknown role 'ghost'"):
            simulate("ghost_static", 0)
    finally:
        del schema.SCENARIO_ROLES["ghost_static"], schema.SCENARIO_BEHAVIOR[
            "ghost_static"
        ], schema.ROLES["ghost"]
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
