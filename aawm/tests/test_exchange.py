"Rollouts from anywhere, and choices on validation trials."

import numpy as np
import pandas as pd
import pytest

from aawm.data import generate
from aawm.errors import BadData, UsageError
from aawm.evaluation import SCORINGS, FrozenWorld, evaluate
from aawm.evaluation.exchange import check_rollouts, read_arrays, score_file, write_rollout_arrays, write_requests
from aawm.evaluation.rollouts import as_trials, collect, true_rollouts
from aawm.evaluation.tasks import plan_rows, trial_set
from aawm.evaluation.threshold import best_threshold, choose_threshold, threshold_table
from aawm.events import goal_entries
from aawm.schema import GOAL


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("exchange") / "trials", trials=27, seed=3, workers=1, progress=False)


@pytest.mark.parametrize("kind", ["npz", "zarr"])
def test_rollouts_in_any_order_are_scored_as_the_package_scores_them(store, tmp_path, kind):
    requests = write_requests(store, tmp_path / f"requests.{kind}", ["single_goal@1", "error_by_step"], cap=9)
    shown, about = read_arrays(requests, ("states", "context", "horizon"))
    last = shown["states"][np.arange(len(shown["context"])), shown["context"] - 1]
    order = np.random.default_rng(0).permutation(len(last))
    answer = {"rollouts": np.repeat(last[order][:, None], shown["horizon"].max(), axis=1), "request": order}
    rollouts = write_rollout_arrays(tmp_path / f"rollouts.{kind}", answer, {"digest": about["digest"], "model": "outside", "seed": 4})
    scored = score_file(rollouts, requests, store)
    own = evaluate(FrozenWorld(), store, tasks=["single_goal", "error_by_step"], cap=9, split=None, progress=False)
    pd.testing.assert_frame_equal(scored.scores, own.scores)
    assert (scored.record["model"], scored.record["seed"], scored.record["cap"]) == ("outside", 4, 9)
    again = score_file(rollouts, requests, store)
    pd.testing.assert_frame_equal(again.scores, scored.scores)


def test_rollouts_for_other_requests_or_trials_are_refused(store, tmp_path):
    one, two = (write_requests(store, tmp_path / f"{seed}.npz", ["move"], seed=seed) for seed in (0, 1))
    shown, about = read_arrays(one, ("states", "context", "horizon"))
    answer = {"rollouts": np.zeros((len(shown["context"]), shown["horizon"].max(), 35), np.float32), "request": np.arange(len(shown["context"]))}
    path = write_rollout_arrays(tmp_path / "rollouts.npz", answer, {"digest": about["digest"]})
    assert score_file(path, one, store).record["model"] == "rollouts"
    with pytest.raises(BadData, match="other requests"):
        score_file(path, two, store)
    other = generate(tmp_path / "others", trials=9, seed=4, workers=1, progress=False)
    with pytest.raises(BadData, match="other trials"):
        score_file(path, one, other)
    with pytest.raises(UsageError, match="there already"):
        write_rollout_arrays(path, answer, {})
    with pytest.raises(UsageError, match="single_goal@9"):
        write_requests(store, tmp_path / "wrong.npz", ["single_goal@9"])


@pytest.mark.parametrize("change, said", [
    (lambda r, q: (r[1:], q[1:]), "missing"), (lambda r, q: (r, q + 1), "missing"), (lambda r, q: (r[:, :3], q), "3 steps"),
    (lambda r, q: (r[..., 0], q), "float"), (lambda r, q: (r.astype(int), q), "float"), (lambda r, q: (r, q[:-1]), "one for each"),
])  # fmt: skip
def test_rollouts_of_the_wrong_form_are_refused(change, said):
    rollouts, request = change(np.zeros((4, 10, 35), np.float32), np.arange(4))
    with pytest.raises(BadData, match=said):
        check_rollouts({"rollouts": rollouts, "request": request}, np.array([10, 5, 5, 2]), "file")


def test_contexts_as_long_as_the_trial_leave_nothing_to_predict():
    plan = plan_rows(np.array([0, 1]), np.array([299, 300]), np.array([[0], [0]]), True)
    assert plan.left_out.tolist() == ["", "nothing to predict"]


def test_true_rollouts_laid_after_their_context_are_the_trials(store):
    test = trial_set(store, None)
    requests = collect(plan_rows(np.arange(5), np.array([50, 60, 70, 299, 1])))
    laid = as_trials(true_rollouts(requests, test), np.arange(5), test, "true")
    assert np.array_equal(laid, test.states[requests.row])


def test_what_rests_at_the_goal_does_not_enter_it():
    here, away = np.tile(GOAL, (6, 1)), np.tile(GOAL + np.array([0, 0, 3.0]), (6, 1))
    comes = np.concatenate([away[:3], here[:3]])
    assert goal_entries(np.stack([here, away, comes])).tolist() == [False, False, True]


def test_the_chosen_threshold_keeps_false_goals_rare():
    table = pd.DataFrame({"threshold": [0.3, 0.5, 0.7], "recall": [0.9, 0.6, 0.2], "false_positive": [0.5, 0.1, 0.0]})
    assert best_threshold(table, 0.15) == 0.5 and best_threshold(table, 0.6) == 0.3 and best_threshold(table, 0.0) == 0.7
    assert best_threshold(table.assign(false_positive=0.9), 0.1) == 0.7, "of equals the highest"
    with pytest.raises(UsageError, match="no validation trial"):
        best_threshold(table.assign(recall=np.nan))
    with pytest.raises(UsageError, match="nothing to choose"):
        threshold_table(FrozenWorld(), None)
    assert choose_threshold(FrozenWorld(), None) == {} and "strict" in SCORINGS
