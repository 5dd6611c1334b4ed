"""Six visits: bit-equal starts, balanced histories, stores that go on where they were stopped, and how choices are scored."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

from aawm.data import generate_visits, open_trials, verify
from aawm.data.making import visits as making
from aawm.data.trials import LAYOUT, SUBJECT_TABLE
from aawm.errors import BadData, UsageError
from aawm.evaluation import Protocol, TrueWorld, VISIT_TASKS, VisitWorld, evaluate, fitted_rules, read_past, rule_table, trial_set
from aawm.evaluation.exchange import part_path, read_arrays, score_files, write_requests, write_rollout_arrays
from aawm.evaluation.rollouts import Rollouts, collect, true_rollouts
from aawm.evaluation.scores import Scorer, score
from aawm.evaluation.tasks import find_tasks
from aawm.evaluation.visits import IdealObserver
from aawm.events import goals
from aawm.files import digest, sha256
from aawm.schema import CONCEPTS, KNOWN_CONCEPTS, STATE_SIZE, unflatten
from aawm.sim.visit_histories import HISTORY_RULES, OWN_CONCEPT, ideal
from aawm.store import read_table

QUICK = {"fidelity": "planar", "workers": 1, "progress": False, "seed": 11}
CHOICES = Protocol(tasks=VISIT_TASKS, split=None)


@pytest.fixture(scope="module")
def trials(visit_store):
    return open_trials(visit_store)


def columns(trials, name):
    return np.stack([trials[f"{name}_{visit}"].values for visit in range(1, 7)], axis=1)


def test_a_group_shows_one_last_start_to_the_bit_and_every_object_is_right_in_a_third(trials):
    states = trials.state.values
    for group in np.unique(trials.group):
        here = np.flatnonzero(trials.group == group)
        differs = (states[here] != states[here[0]]).any((0, 2, 3))
        assert not differs[250:252].any() and 255 <= 250 + differs[250:].argmax() < 270
        answers = pd.crosstab(trials.concept.values[here], trials.answer.values[here])
        assert answers.shape == (6, 3) and (answers == 1).all(axis=None)


def test_no_rule_helps_beyond_its_own_concept(trials):
    table = rule_table(trials).pivot(index=["kind", "model"], columns="concept", values="right")
    assert np.allclose(table.loc["pose rule"], 1 / 3, atol=1e-12)
    history = table.loc["history rule"]
    assert len(history) == 22 and history["mean"].max() <= 0.5 and history[list(CONCEPTS)].min(axis=1).max() <= 0.37
    assert all(history.loc[rule, concept] == 1 for rule, concept in OWN_CONCEPT.items())


def test_training_sets_hold_known_concepts_and_validation_shares_no_scene(tmp_path):
    store = open_trials(generate_visits(tmp_path / "train", subjects=600, scenes=60, **QUICK))
    assert set(store.concept.values) == set(KNOWN_CONCEPTS)
    scenes, split = columns(store, "scene"), store.split.values
    assert not set(scenes[split == "train"].ravel()) & set(scenes[split == "validation"].ravel())
    assert (split == "validation").sum() == 120
    hit = [ideal(read_past(states[:252])).argmax() == answer for states, answer in zip(store.state.values, store.answer.values)]
    assert np.mean(hit) >= 0.95, "the ideal observer on histories as they come"


@pytest.mark.slow
def test_a_stopped_store_goes_on_and_ends_with_the_same_bytes(tmp_path, monkeypatch):
    draw, drawn = making.draw_scene, []

    def stops(root_seed, index, fidelity, **choices):
        drawn.append(index)
        if len(drawn) == 30:
            raise KeyboardInterrupt
        return draw(root_seed, index, fidelity, **choices)

    choices = {"subjects": 36, "scenes": 30, "test": True} | QUICK
    with monkeypatch.context() as patch:
        patch.setattr(making, "draw_scene", stops)
        with pytest.raises(BaseException, match="stopped with"):
            generate_visits(tmp_path / "stopped", **choices)
        generate_visits(tmp_path / "stopped", **choices)
    assert len(drawn) < 60, "scenes that were kept are not drawn again"
    whole = generate_visits(tmp_path / "whole", **choices)
    files = {file.relative_to(whole): file.read_bytes() for file in whole.rglob("*") if file.is_file()}
    assert files == {file.relative_to(tmp_path / "stopped"): file.read_bytes() for file in (tmp_path / "stopped").rglob("*") if file.is_file()}
    with pytest.raises(Exception, match="other settings"):
        generate_visits(whole, **choices | {"seed": 12})


def test_noise_changes_what_visits_before_the_last_show_and_nothing_else(tmp_path):
    "Subjects, starts and last visits are those of the test without noise, to the bit."
    test = {"subjects": 36, "scenes": 14, "test": True} | QUICK
    calm = open_trials(generate_visits(tmp_path / "calm", **test))
    noisy = open_trials(generate_visits(tmp_path / "noisy", noise=True, **test))
    assert verify(tmp_path / "noisy")["trials"] == 36 and noisy.settings["noise"]["stall"] > 0 and "noise" not in calm.settings
    assert (columns(calm, "choice") == columns(noisy, "choice")).all() and (calm.character == noisy.character).all()
    one, other = (trials.state.values.reshape(-1, 6, 50, 5, 7) for trials in (calm, noisy))
    assert np.array_equal(one[:, 5], other[:, 5]) and np.array_equal(one[:, :, :5], other[:, :, :5])
    failed = ~goals(other[:, :5]).any(-1)
    assert 0.2 < failed.mean() < 0.8 and goals(one[:, :5]).any(-1).all()
    read = np.array([read_past(states[:252]).brought for states in noisy.state.values])
    assert (read == columns(noisy, "choice")[:, :5])[failed].mean() > 0.7, "what is tried shows, too"


def test_verify_reads_the_table_of_subjects(visit_store, tmp_path):
    wrong = tmp_path / "wrong"
    shutil.copytree(visit_store, wrong)
    table = read_table(wrong, LAYOUT, SUBJECT_TABLE)
    table.loc[7, "actor_2"] = 1 - table.loc[7, "actor_2"]
    table.to_parquet(wrong / "subjects.parquet", index=False, compression="zstd")
    manifest = json.loads((wrong / "manifest.json").read_text())
    file = wrong / "subjects.parquet"
    manifest["files"]["subjects.parquet"] = {"bytes": file.stat().st_size, "sha256": sha256(file)}
    manifest["checksum"] = digest({name: value for name, value in manifest.items() if name != "checksum"})
    (wrong / "manifest.json").write_text(json.dumps(manifest))
    assert verify(visit_store)["trials"] == 198
    with pytest.raises(BadData, match="trial 7 visit 2: another robot acts"):
        verify(wrong)


def test_outside_programs_see_the_history_and_nothing_after(visit_store, trials, tmp_path):
    (file, *more) = write_requests(visit_store, tmp_path / "requests.npz", list(VISIT_TASKS), split=None)
    arrays, about = read_arrays(file, ("states", "context", "horizon"))
    assert about["tasks"] == ["who_wants_what@1", "who_wants_what_control@1"]
    (tmp_path / "answers").mkdir()
    for part in range(about["parts"]):
        arrays, stated = read_arrays(part_path(tmp_path / "requests.npz", part), ("states", "context", "horizon"))
        for states, context in zip(arrays["states"], arrays["context"]):
            assert np.isfinite(states[:context]).all() and np.isnan(states[context:]).all() and context in (2, 252)
        rolled = IdealObserver().rollout(torch.tensor(arrays["states"]), torch.tensor(arrays["context"]), int(arrays["horizon"].max()))
        answer = {"rollouts": rolled.numpy(), "request": np.arange(len(rolled))}
        said = {"digest": stated["digest"], "model": "outside", "given_concepts": True}
        write_rollout_arrays(tmp_path / "answers" / f"{part}.npz", answer, said)
    scored = score_files([tmp_path / "answers"], tmp_path / "requests.npz", visit_store)
    right = scored.scores[(scored.scores.metric == "right") & (scored.scores.task == "who_wants_what")].set_index("behavior").value
    assert scored.record["given_concepts"] and right["all"] == right["known"] == right["new"] == 1


def test_a_rollout_with_a_second_object_is_wrong_and_so_is_a_failed_one(visit_store):
    test = trial_set(visit_store, None)
    tasks = find_tasks(["who_wants_what"])
    plan = Protocol(tasks=["who_wants_what"], split=None).plan(test)
    truth = true_rollouts(collect(plan), test)

    def shares(steps):
        scores = score(Scorer(plan, Rollouts(truth.requests, steps, truth.before), test, CHOICES.rules), tasks)["scores"]
        return scores[scores.behavior == "all"].set_index("metric").value

    assert shares(truth.steps)["right"] == shares(truth.steps)["ceiling"] == 1
    both = truth.steps.copy().reshape(len(truth), 48, STATE_SIZE)
    states = unflatten(both)
    states[:, -5:, :3, :3] = [0, 0.5, -6]  # everything comes to the observer in the end
    assert shares(both.reshape(-1, STATE_SIZE))[["right", "acts"]].tolist() == [0, 1]
    broken = truth.steps.copy()
    broken[::48] = np.nan
    assert shares(broken)["right"] == 0


def test_movement_is_measured_in_the_last_visit_alone(visit_store):
    result = evaluate(TrueWorld(), visit_store, Protocol(tasks=["error_by_step", "move"], split=None), progress=False)
    values = result.scores[result.scores.behavior == "all"].set_index("metric").value
    assert values["ade"] == 0 and result.curves.step.max() == 48
    moved = result.outcomes[result.outcomes.task == "move"]
    assert moved.groupby("trial").truth.sum().max() == 1, "placing things anew is no motion"


def test_a_rule_is_right_by_its_rollout_as_by_its_word(visit_store):
    "And without history it stands still; intervals are over last scenes."
    rule = HISTORY_RULES["mine last"]
    result = evaluate(VisitWorld("mine_last", rule), visit_store, CHOICES, progress=False)
    table = rule_table(visit_store).query("model == 'mine last'").set_index("concept").right
    scores = result.scores[result.scores.metric == "right"].set_index(["task", "behavior"])
    for concept in (*CONCEPTS, "known", "new"):
        assert scores.value["who_wants_what", concept] == pytest.approx(table[concept])
    assert scores.value["who_wants_what_control", "all"] == 0
    assert scores["count"]["who_wants_what", "own"] == 33
    assert not result.record["given_concepts"]


@pytest.mark.slow
def test_fits_to_rules_know_what_they_were_shown(visit_store):
    shown = fitted_rules(visit_store, seeds=[0]).set_index(["model", "concept"]).right
    for name in ("linear fit to rules", "network fit to rules"):
        assert shown[name, "known"] > 0.5 and shown[name, "new"] < 0.5


def test_rules_want_trials_of_six_visits(other_store):
    with pytest.raises(UsageError, match="no trials of six visits"):
        rule_table(other_store)
