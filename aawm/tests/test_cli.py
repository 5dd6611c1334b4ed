"""The program: mistakes end in one line and the right exit code, and nothing is written that was not asked for."""

import sys
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
import torch

from aawm import cli
from aawm.evaluation import read_evaluation
from aawm.models import WorldModel
from aawm.tests.conftest import leave as run_program
from aawm.tests.models.test_names import GLIDE
from aawm.training import fit, load_run, run_settings
from aawm.training.loop import read_log


class Bare(WorldModel):
    "Its loss forgets the numbers to log."

    name = "bare"

    def __init__(self, config=None, variant="corrected"):
        super().__init__(config, variant)
        self.weight = torch.nn.Parameter(torch.zeros(35))

    def loss(self, batch):
        return batch["states"].mean()


class Fails(Bare):
    "Its loss looks for what a batch does not hold."

    name = "fails"

    def loss(self, batch):
        return batch["pictures"].mean(), {}


class Weightless(WorldModel):
    "Has nothing to train."

    name = "weightless"


@pytest.fixture(scope="module")
def stores(tmp_path_factory, arena_store, other_store):
    "Two small stores, and a run that was trained on the first for two steps."
    folder = tmp_path_factory.mktemp("program")
    (folder / "trials0").symlink_to(arena_store)
    (folder / "trials1").symlink_to(other_store)
    quick = dict(steps=2, batch=4, checkpoint_every=2, validate_every=2, log_every=2, validation_windows=4)
    small = dict(recurrent_layers=1, recurrent_size=8, hidden_size=8)
    fit(
        "multistep_predictor", folder / "trials0", folder / "run", model_settings=small,
        training_settings=quick, device="cpu", progress=False
    )
    return folder


def leave(capsys, *words) -> tuple:
    "The exit code, and what was written to the two streams."
    code = run_program(*words, "--no-progress")
    return code, *capsys.readouterr()


def test_an_evaluation_is_not_written_over_and_says_where_it_is(stores, capsys):
    words = ("evaluate", stores / "run", stores / "trials0", stores / "out", "--tasks", "move")
    code, out, err = leave(capsys, *words)
    assert code == 0 and f"{stores / 'out'}: curves.csv, outcomes.parquet, record.json, rollouts.npz, scores.csv" in out and "note" not in err
    first = (stores / "out" / "record.json").read_bytes()
    code, out, err = leave(capsys, *words, "--seed", "1")
    assert (code == 2 and "holds an evaluation already (multistep_predictor corrected 0 strict)" in err and not out)
    assert (stores / "out" / "record.json").read_bytes() == first
    assert leave(capsys, *words, "--seed", "1", "--replace")[0] == 0
    assert read_evaluation(stores / "out").record["evaluation_seed"] == 1


def test_the_folder_of_an_evaluation_is_looked_at_before_it_begins(stores, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("aawm.evaluation.evaluate", lambda *a, **b: pytest.fail("it began"))
    (tmp_path / "file").write_text("")
    assert leave(capsys, "evaluate", stores / "run", stores / "trials0", tmp_path / "file")[0] == 5
    code, _, err = leave(capsys, "evaluate", stores / "run", stores / "trials0", stores / "trials1")
    assert code == 2 and "holds no evaluation" in err


def test_an_evaluation_without_a_row_is_not_written(stores, capsys):
    code, _, err = leave(
        capsys, "evaluate", "frozen_world", stores / "trials1", stores / "empty", "--tasks", "multi_goal"
    )
    assert code == 2 and "has no trial (validation) for multi_goal" in err and not (stores / "empty").exists()


@pytest.mark.parametrize("model", ["Bare", "Fails", "Weightless"])
def test_a_model_with_a_wrong_loss_ends_in_one_line(stores, capsys, tmp_path, model):
    code, _, err = leave(
        capsys, "train", f"aawm.tests.test_cli:{model}", stores / "trials0", tmp_path / "run", "--preset",
        "smoke", "--device", "cpu"
    )
    said = {
        "Bare": "returns Tensor, expected (loss, logs)", "Fails": "fails with KeyError: 'pictures'",
        "Weightless": "no weights to train"
    }
    assert code == 4 and said[model] in err and len(err.strip().splitlines()) == 1


def test_a_model_that_failed_the_contract_is_trained_with_a_warning(stores, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("odd.py").write_text("""from aawm.models import WorldModel


class Shape(WorldModel):
    def loss(self, batch):
        return batch["states"].square().mean(), {}

    def rollout(self, states, context, horizon, **more):
        return states[:, :1] @ states[:, :1]
""")
    words = (
        "odd.py:Shape", stores / "trials0", tmp_path / "run", "--preset", "smoke", "--steps", 1, "--batch", 2,
        "--device", "cpu"
    )
    code, _, err = leave(capsys, "train", *words, "--set", "validation_windows=2")
    assert err.count("warning") == 1 and "(odd.py, line 9)" in err, err


def test_a_model_whose_file_has_changed_is_not_trained_on_and_is_evaluated_with_a_warning(
    stores, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("owned.py").write_text(GLIDE)
    words = (
        "train", "owned.py:Glide", stores / "trials0", "run", "--preset", "smoke", "--steps", 1, "--batch", 2,
        "--device", "cpu"
    )
    words += ("--set", "validation_windows=2")
    assert leave(capsys, *words)[0] == 0 and run_settings("run")["source"] and load_run("run").seed == 0
    evaluated = ("evaluate", "run", stores / "trials0", "out", "--tasks", "move", "--replace")
    code_, _, err = leave(capsys, *evaluated)
    assert code_ == 0 and "has changed" not in err and "count as wrong" not in err
    monkeypatch.delitem(sys.modules, "owned")
    Path("owned.py").write_text(GLIDE.replace("self.weight *", "float('nan') *"))
    code_, _, err = leave(capsys, *evaluated)
    assert (code_ == 0 and "owned.py has changed since run was trained" in err and "they count as wrong" in err)
    code_, _, err = leave(capsys, *words)
    assert code_ == 2 and "holds another run (source:" in err


TRAINED = """import torch


class Trained:
    "A constructor that loads its weights, and `rollout`: no loss, no name."

    def __init__(self):
        self.weights = torch.zeros(35)

    def rollout(self, states, context, horizon, generator=None, mode=False, privileged=None):
        last = states[torch.arange(len(states)), context - 1]
        return last[:, None].expand(-1, horizon, -1) + self.weights


class Asks:
    def __init__(self, path):
        self.path = path

    rollout = Trained.rollout
"""


def test_a_model_that_is_trained_already_is_evaluated_by_its_class(stores, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("trained.py").write_text(TRAINED)
    words = (stores / "trials0", "out/mine", "--split", "all")
    options = ("--offset", -3, "--offset", 5, "--final", "--threshold", 2.5, "--tasks", "move")
    code, out, err = leave(capsys, "evaluate", "trained.py:Trained", *words, *options)
    assert code == 0 and "weights that its constructor gives" in err and "outcomes.parquet" in out, err
    record = read_evaluation("out/mine").record
    assert (record["model"], record["variant"], record["privileged"]) == ("Trained", "corrected", [])
    assert record["tasks"] == ["move", "single_goal_offset_-3_final", "single_goal_offset_+5_final", "move_2.5_m"]
    code, _, err = leave(capsys, "evaluate", "trained.py:Asks", *words, "--replace")
    assert code == 4 and "cannot be made without arguments" in err.splitlines()[-1]
    code, _, err = leave(capsys, "evaluate", "trained.py:Trainde", *words, "--replace")
    assert code == 2 and "cannot find model" in err


def test_the_outcomes_of_many_models_are_written_as_one_table(stores, capsys, tmp_path):
    for model in ("frozen_world", "constant_velocity"):
        words = (model, stores / "trials0", tmp_path / "all" / model, "--split", "all", "--tasks", "move")
        assert leave(capsys, "evaluate", *words)[0] == 0
    for name in ("both.parquet", "both.csv"):
        assert cli.run_words(["outcomes", str(tmp_path / "all"), str(tmp_path / name)]) == (0, "")
        assert "240 rows of 2 models" in capsys.readouterr().out
    table = pd.read_parquet(tmp_path / "both.parquet")
    assert {
        "model", "variant", "seed", "scoring", "task", "trial", "scenario", "object", "truth", "prediction"
    } <= set(table)
    assert set(table.object) == {0, 1, 2} and (table.groupby(["model", "trial"]).size() == 3).all() and (
        table.scenario != ""
    ).all()
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "both.csv"), table, check_dtype=False)
    code, said = cli.run_words(["outcomes", str(tmp_path / "all"), str(tmp_path / "both.xlsx")])
    assert code == 2 and "must end in" in said


def test_training_starts_from_given_weights_and_a_run_grows_in_its_folder(stores, capsys, tmp_path):
    tiny = ("--preset", "smoke", "--device", "cpu", "--set", "validation_windows=2", "--set", "log_every=1")
    words = ("train", "multistep_predictor", stores / "trials0", tmp_path / "tuned")
    code, _, err = leave(capsys, *words, "--from", stores / "run", "--steps", 2, *tiny)
    settings = run_settings(tmp_path / "tuned")
    assert code == 0 and settings["started_from"]["file"] == "run" and settings["config"]["hidden_size"] == 8, err
    start, tuned = (load_run(folder).state_dict() for folder in (stores / "run", tmp_path / "tuned"))
    assert all(torch.equal(start[name], tuned[name]) for name in start if "scaler" in name)
    assert max((start[name] - tuned[name]).abs().max() for name in start) < 0.05, "two steps away, not fresh"
    code, _, err = leave(capsys, *words, "--from", stores / "run", "--steps", 4, *tiny)
    assert code == 2 and "training.steps: 2 -> 4" in err and "--extend" in err
    assert leave(capsys, *words, "--from", stores / "run", "--steps", 4, "--extend", *tiny)[0] == 0
    assert run_settings(tmp_path / "tuned")["lengthened"] == {"2": 2}
    assert [row["step"] for row in read_log(tmp_path / "tuned")] == ["1", "2", "3", "4"]
    assert leave(capsys, *words, "--from", stores / "run", "--steps", 4, *tiny)[0] == 0, "finished: nothing to do"
    other = ("train", "rssm_discrete", stores / "trials0", tmp_path / "no")
    code, _, err = leave(capsys, *other, "--from", stores / "run", "--steps", 2, *tiny)
    assert code == 2 and "cannot start from it" in err and not (tmp_path / "no").exists()


def test_a_stopped_evaluate_goes_on(stores, capsys, tmp_path, monkeypatch):
    whole = ("evaluate", stores / "run", stores / "trials0", stores / "whole", "--tasks", "move", "--split", "all")
    words = (*whole[:3], stores / "parts", *whole[4:])
    assert leave(capsys, *whole)[0] == 0
    scored = Mock(side_effect=KeyboardInterrupt)
    with monkeypatch.context() as stopped:
        stopped.setattr("aawm.evaluation.results.score_evaluation", scored)
        assert leave(capsys, *words)[0] == 6 and not (stores / "parts").exists()
    with monkeypatch.context() as idle:
        idle.setattr("aawm.models.base.WorldModel.rollout", Mock(side_effect=AssertionError("rolled out again")))
        assert leave(capsys, *words)[0] == 0
    assert (stores / "parts" / "scores.csv").read_bytes() == (stores / "whole" / "scores.csv").read_bytes()
    assert not list(stores.glob(".unfinished*"))


def test_what_keeps_nothing_says_that_it_starts_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("aawm.evaluation.joined_outcomes", Mock(side_effect=KeyboardInterrupt))
    code, said = cli.run_words(["outcomes", str(tmp_path), "all.csv"])
    assert code == 6 and "starts anew" in said and "resume" not in said
