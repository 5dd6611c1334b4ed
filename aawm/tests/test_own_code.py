"""A user's own module: one that parses arguments, exits or fails where it is imported gets one line, as a model, observer or method."""

import json
import os
import sys
from pathlib import Path

import pandas as pd
import pytest

from aawm import schema
from aawm.data import generate
from aawm.data.making.draw import draw_trial
from aawm.data.making.generate import draw_alike, simulator_hash
from aawm.data.trials import LAYOUT
from aawm.errors import EnvironmentProblem, ModelContractError, UsageError
from aawm.evaluation import Protocol, evaluate, trial_set
from aawm.files import sha256
from aawm.infant import make_observer
from aawm.marple.commands import find_method
from aawm.models import model_class
from aawm.on_demand import CODE, use_code
from aawm.runs.manifest import plan, profile_values
from aawm.sim.behaviors import ROLE
from aawm.store import read_manifest
from aawm.tests.conftest import leave

READERS = {"model": model_class, "observer": make_observer, "method": find_method}
FAULTS = {
    "cannot import own_code: SystemExit: 2": "import argparse\nargparse.ArgumentParser().parse_args()\n",
    "cannot import own_code: SystemExit: 3": "import sys\nsys.exit(3)\n",
    "cannot import own_code: ZeroDivisionError": "1 / 0\n",
}


@pytest.fixture
def module(tmp_path, monkeypatch):
    "Write a module that can be imported as `own_code`."
    monkeypatch.syspath_prepend(tmp_path)
    yield (tmp_path / "own_code.py").write_text
    sys.modules.pop("own_code", None)


@pytest.mark.parametrize("what", READERS)
@pytest.mark.parametrize("words", FAULTS)
def test_a_module_that_does_more_than_define(module, what, words, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["aawm", "evaluate", "own_code:Mine", "--device", "cpu"])
    module(FAULTS[words] + "def Mine(*_): pass\n")
    with pytest.raises(ModelContractError, match=words) as fault:
        READERS[what]("own_code:Mine")
    assert fault.value.exit_code == 4 and "\n" not in str(fault.value)


@pytest.mark.parametrize("what", READERS)
@pytest.mark.parametrize("name", ["own_code:Absent", "nowhere_at_all:Mine", ":Mine", "own_code:"])
def test_a_name_that_is_not_there(module, what, name):
    module("")
    with pytest.raises(UsageError, match=f"cannot find {what} '{name}'") as fault:
        READERS[what](name)
    assert "\n" not in str(fault.value)


HIDER = """
from aawm.schema import register_scenario
from aawm.sim.behaviors import role
from aawm.sim.driving import travel


@role
def hider(robot, shared):
    yield from travel(robot, robot.home)


register_scenario("hider_static", ("hider", "static"), "hiding")
"""


@pytest.fixture
def hider(tmp_path, monkeypatch):
    "A file with a scenario, in the current folder; what it registers is taken back."
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hider.py").write_text(HIDER)
    yield tmp_path / "hider.py"
    sys.modules.pop("hider", None)
    for table, name in ((schema.SCENARIO_ROLES, "hider_static"), (schema.SCENARIO_BEHAVIOR, "hider_static"), (schema.ROLES, "hider"), (ROLE, "hider")):
        table.pop(name, None)


def test_a_scenario_of_ones_own_is_simulated_in_workers_and_named_in_its_store(hider, capsys):
    for workers in ("1", "2"):
        assert not leave(*f"generate of{workers} --code hider.py --scenario hider_static --trials 3 --fidelity planar --no-progress --workers".split(), workers)
    one, two = (read_manifest(f"of{workers}", LAYOUT) for workers in "12")
    assert one == two and one["settings"]["code"] == {"hider.py": sha256(hider)} and CODE not in os.environ
    assert not leave("--code", "hider.py", "verify", "of2")
    assert not leave(*"evaluate frozen_world of1 out --tasks move --split all --no-progress --code hider.py".split())
    assert json.loads(Path("out/record.json").read_text())["code"] == {"hider.py": sha256(hider)}
    schema.SCENARIO_ROLES.pop("hider_static")
    for words in ("verify of1", "evaluate frozen_world of1 elsewhere --split all"):
        capsys.readouterr()
        assert leave(*words.split()) in (2, 3) and "--code hider.py" in capsys.readouterr().err


OWN = """
import hider
import numpy as np
import torch
from aawm.evaluation import Task, register_task
from aawm.evaluation.tasks import plan_rows
from aawm.events import register_rule
from aawm.models import WorldModel
from aawm.models.base import last_shown


@register_rule("stays")
def stays(states):
    return np.abs(states[..., -1, :3, 0] - states[..., 0, :3, 0]) < 1


def plan(held, scoring):
    row = np.flatnonzero(held.behavior == "hiding")
    return plan_rows(row, np.full(len(row), 50), np.tile(np.arange(3), (len(row), 1)))


register_task(Task("stays_put", "own figure", "stays", plan))


class Still(WorldModel):
    def __init__(self, config=None, variant="corrected"):
        super().__init__(config, variant)
        self.weight = torch.nn.Parameter(torch.ones(1))

    def loss(self, batch):
        return self.weight.square().sum(), {}

    def imagine(self, states, lengths, horizon, generator=None, mode=False, privileged=None):
        return last_shown(states, lengths)[:, None].repeat(1, horizon, 1)
"""


@pytest.mark.slow
def test_scenario_rule_task_and_model_of_ones_own_are_known_on_a_cluster(hider, capfd):
    from dask.distributed import LocalCluster

    Path("own.py").write_text(OWN)
    words = "reproduce --profile smoke --code hider.py --code own.py --no-progress --only evaluate --set scenarios=hider_static".split()
    words += "--set tasks=stays_put --set scorings=strict --set trials=24 --set test_trials=4 --set fidelity=planar --set models=own.py:Still --scheduler".split()
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as other:
        assert not leave(*words, other.scheduler_address), capfd.readouterr()
    (scores,) = Path("data").rglob("scores.csv")
    recall = pd.read_csv(scores).query("task == 'stays_put' and metric == 'recall' and behavior == 'hiding'")
    assert recall.value.tolist() == [1.0] and recall["count"].tolist() == [12]


def test_only_what_was_typed_is_imported(hider, monkeypatch):
    hider.write_text("import os\nos.mkdir('ran')\n")
    monkeypatch.setenv(CODE, json.dumps({str(hider): sha256(hider)}))
    Path("aawm.toml").write_text('code = ["hider.py"]\n')
    assert not leave("list", "scenarios") and not Path("ran").exists()
    assert not leave("list", "scenarios", "--code", "hider.py") and Path("ran").exists()


def test_another_file_of_the_name_is_refused(hider):
    with pytest.raises(EnvironmentProblem, match="another file"):
        draw_alike(simulator_hash(), {str(hider): "0" * 64}, draw_trial, 0, 0, "planar")


def test_jobs_know_the_code_of_ones_own(hider, monkeypatch):
    monkeypatch.setenv(CODE, "{}")
    plain = {job.name: job.key for job in plan(profile_values("smoke"))}
    use_code(["hider.py"])
    values = profile_values("smoke", {"scenarios": ["hider_static"]})
    assert values["profile"].startswith("smoke-custom-") and profile_values("smoke")["profile"] != values["profile"]
    keys = [{job.name: job.key for job in plan(values)}]
    monkeypatch.setenv(CODE, json.dumps({str(hider): "0" * 64}))
    keys += [{job.name: job.key for job in plan(profile_values("smoke", {"scenarios": ["hider_static"]}))}]
    assert all(len({plain[name], keys[0][name], keys[1][name]}) == 3 for name in plain)


def test_a_benchmark_of_ones_own_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert not leave("new-benchmark", "doors") and leave("new-benchmark", "doors") == 2 and leave("new-benchmark", "Doors") == 2
    assert sorted(path.name for path in Path("doors").iterdir()) == ["doors.py", "figures.ipynb", "learner.py", "paper.yaml", "score.ipynb"]
    again = ["reproduce", "--paper", "doors/paper.yaml", "--set", "walks=40", "--set", "training_walks=60", "--name", "mine", "--no-progress"]
    assert not leave(*again), capsys.readouterr()
    assert {"curves.png", "claims.csv"} <= {path.name for path in Path("figures/doors/quick-custom-mine").iterdir()}
    learner = Path("doors/learner.py")
    learner.write_text(learner.read_text().replace("rounds=300", "rounds=200"))
    sys.modules.pop("learner")
    capsys.readouterr()
    assert not leave(*again, "--plan") and capsys.readouterr().out.count("False") == 2
    for module in ("doors", "learner"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize("place", [(), (3.0, -6.0)])
def test_an_observer_stands_where_it_is_put(tmp_path, place):
    store = generate(tmp_path / "trials", 12, seed=4, workers=1, fidelity="planar", scenarios=["gathering_static"], observer=place, progress=False)
    schema.place_observer()
    test = trial_set(store, split=None)
    where = test.states[:, -1, :3, 0][test.goal_step >= 0]
    assert schema.GOAL[0] == (place[0] if place else 0) and abs(where.mean() - schema.GOAL[0]) < 1.5
    told = evaluate("frozen_world", store, Protocol(["single_goal"], split=None), progress=False)
    assert told.scores.query("metric == 'ceiling' and behavior == 'all'").value.tolist() == [1.0]
    schema.place_observer()
