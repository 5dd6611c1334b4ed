"Rollouts from anywhere, and choices on validation trials."

import contextlib

import numpy as np
import pandas as pd
import pytest

from aawm.errors import BadData, UsageError
from aawm.evaluation import SCORINGS, CopyLast, Protocol, evaluate
from aawm.evaluation.exchange import check_rollouts, plan_requests, read_arrays, request_parts, score_files, write_requests, write_rollout_arrays
from aawm.evaluation.rollouts import as_trials, collect, true_rollouts
from aawm.evaluation.tasks import find_tasks, plan_rows, plan_tasks, trial_set
from aawm.events import path_goal_entries
from aawm.schema import GOAL, STEPS


@pytest.fixture(scope="module")
def store(arena_store):
    return arena_store


def answer_still(requests, folder, seed=0, **known):
    "What a program does that keeps everything where it is, its rows in any order."
    for path in requests:
        shown, about = read_arrays(path, ("states", "context", "horizon"))
        last = shown["states"][np.arange(len(shown["context"])), shown["context"] - 1]
        order = np.random.default_rng(seed).permutation(len(last))
        answer = {"rollouts": np.repeat(last[order][:, None], shown["horizon"].max(), axis=1), "request": order}
        write_rollout_arrays(folder / path.name, answer, {"digest": about["digest"], "seed": seed} | known)
    return folder


def test_rollouts_in_any_order_are_scored_as_the_package_scores_them(store, tmp_path):
    requests = write_requests(store, tmp_path / "requests.npz", ["single_goal@1", "single_goal_later", "error_by_step"], cap=9)
    assert [path.name for path in requests] == [f"requests-{part}.npz" for part in range(len(requests))] and len(requests) > 1
    rollouts = answer_still(requests, tmp_path / "rollouts", seed=4, model="outside")
    scored = score_files([rollouts], tmp_path / "requests.npz", store)
    own = evaluate(
        CopyLast(), store,
        Protocol(tasks=["single_goal", "single_goal_later", "error_by_step"], cap=9, split=None),
        progress=False
    )
    pd.testing.assert_frame_equal(scored.scores, own.scores)
    assert (scored.record["model"], scored.record["seed"], scored.record["cap"]) == ("outside", 4, 9)
    again = score_files(sorted(rollouts.iterdir())[::-1], requests[-1], store)
    pd.testing.assert_frame_equal(again.scores, scored.scores)


def proper_prefixes(states, context):
    "Pairs of requests in which one shows all that the other shows, and more."
    pairs = [(one, two) for one in range(len(context)) for two in range(len(context)) if context[one] < context[two]]
    return [
        (one, two)
        for one, two in pairs
        if np.array_equal(states[one, : context[one]], states[two, : context[one]])
    ]


def test_no_part_shows_what_comes_after_the_context_of_another_of_its_requests(store, tmp_path):
    parts = [read_arrays(path, ("states", "context"))[0] for path in write_requests(store, tmp_path / "requests.npz")]
    assert len(parts) > 2 and not any(proper_prefixes(part["states"], part["context"]) for part in parts)
    every, contexts = (np.concatenate([part[name] for part in parts]) for name in ("states", "context"))
    assert proper_prefixes(every, contexts), "in one file they would show it"
    hidden = np.arange(every.shape[1]) >= contexts[:, None]
    assert np.isnan(every[hidden]).all() and np.isfinite(every[~hidden]).all()


@pytest.mark.parametrize("scoring", ["strict", "published"])
def test_a_trial_is_shown_in_one_way_a_part_and_further_in_each(store, scoring):
    test = trial_set(store, None)
    requests = collect(plan_tasks(find_tasks(), test, SCORINGS[scoring]))
    requests = requests.assign(part=request_parts(requests), end=requests.start + requests.context)
    shown = requests.drop_duplicates(["row", "start", "context"])
    assert not shown.duplicated(["row", "part"]).any() and shown.duplicated("row").any()
    ends = shown.sort_values("part").groupby("row")
    assert ends.end.apply(lambda end: end.is_monotonic_increasing).all() and (
        ends.part.max() + 1 == ends.size()
    ).all(), "none is left free"


def test_a_missing_part_and_one_that_is_there_twice_are_one_clear_error(store, tmp_path):
    requests = write_requests(store, tmp_path / "requests.npz", ["single_goal", "single_goal_later"])
    files = sorted(answer_still(requests, tmp_path / "rollouts").iterdir())
    for given, said in (
        (files[:1], "part 1 has no rollouts"), (files[1:], "part 0 has no rollouts"),
        ([*files, files[0]], "another file answers too")
    ):
        with pytest.raises(BadData, match=said) as fault:
            score_files(given, tmp_path / "requests.npz", store)
        assert "\n" not in str(fault.value)
    other = sorted(answer_still(requests, tmp_path / "other", model="other").iterdir())
    with pytest.raises(BadData, match="differ in model"):
        score_files([files[0], other[1]], tmp_path / "requests.npz", store)
    arrays, about = read_arrays(files[0], ("rollouts", "request"))
    wrong = [({"seed": "zero"}, "seed: "), ({"seed": True}, "seed: "), ({"model": ""}, "must be a plain name"), ({"model": "sgnet"}, "choose another")]
    wrong += [({"privileged": given}, "privileged") for given in ("end_state", ["crystal"], None)]
    for k, (changed, said) in enumerate([*[(about | change, said) for change, said in wrong], ([about], "about in")]):
        file = write_rollout_arrays(tmp_path / f"wrong{k}.npz", arrays, changed)
        with pytest.raises(BadData, match=said):
            score_files([file, files[1]], tmp_path / "requests.npz", store)


def test_what_the_requests_hold_beyond_the_context_is_recorded_whatever_the_answers_say(store, tmp_path):
    requests = write_requests(store, tmp_path / "requests.npz", ["move"], privileged=("end_state",))
    for name, said, recorded in (("none", [], ["end_state"]), ("more", ["true_states"], ["end_state", "true_states"])):
        files = answer_still(requests, tmp_path / name, privileged=said).iterdir()
        assert score_files(files, tmp_path / "requests.npz", store).record["privileged"] == recorded


@pytest.mark.parametrize("choices, said", [
    ({"privileged": ("end_stat",)}, "did you mean 'end_state'"), ({"seed": -1}, "seed must be"), ({"cap": 1.5}, "cap must be"),
    ({"curve_trials": 0}, "curve_trials must be"),
])  # fmt: skip
def test_requests_that_cannot_be_are_one_clear_error(store, tmp_path, choices, said):
    with pytest.raises(UsageError, match=said):
        write_requests(store, tmp_path / "requests.npz", ["move"], **choices)


def test_rollouts_for_other_requests_or_trials_are_refused(store, other_store, tmp_path):
    one, two = (write_requests(store, tmp_path / f"{seed}.npz", ["move"], seed=seed) for seed in (0, 1))
    assert len(one) == 1
    path = next(answer_still(one, tmp_path / "rollouts").iterdir())
    assert score_files([path], one[0], store).record["model"] == "outside"
    with pytest.raises(BadData, match="other requests"):
        score_files([path], two[0], store)
    with pytest.raises(BadData, match="other trials"):
        score_files([path], one[0], other_store)
    for name, tasks, said in (("0.npz", ["move"], "there already"), ("a.npz", ["single_goal@9"], "single_goal@9"), ("a.json", ["move"], "end in .npz")):
        with pytest.raises(UsageError, match=said):
            write_requests(store, tmp_path / name, tasks)
    arrays, about = read_arrays(one[0], ("states",))
    old = write_rollout_arrays(tmp_path / "old.npz", arrays, about | {"format": 1})
    with pytest.raises(BadData, match="format: input should be 3"):
        score_files([path], old, store)


@pytest.mark.parametrize("change, said", [
    (lambda r, q: (r[1:], q[1:]), r"float \[4, 10, 35\]"), (lambda r, q: (r, q + 1), "request 0 is missing"), (lambda r, q: (r[:, :3], q), "float"),
    (lambda r, q: (r[..., 0], q), "float"), (lambda r, q: (r.astype(int), q), "int64"), (lambda r, q: (r, q[:-1]), "request 3 is missing"),
    (lambda r, q: (r, q.astype(float)), "float64"), (lambda r, q: (np.concatenate([r, r]), np.concatenate([q, q])), "float"),
    (lambda r, q: (np.repeat(r, 30, axis=1), q), "without the steps shown"),
])  # fmt: skip
def test_rollouts_of_the_wrong_form_are_refused(change, said):
    rollouts, request = change(np.zeros((4, 10, 35), np.float32), np.arange(4))
    with pytest.raises(BadData, match=said):
        check_rollouts({"rollouts": rollouts, "request": request}, np.array([10, 5, 5, 2]), "file")


def test_true_rollouts_laid_after_their_context_are_the_trials(store):
    test = trial_set(store, None)
    requests = collect(plan_rows(np.arange(5), np.array([50, 60, 70, 299, 1])))
    laid = as_trials(true_rollouts(requests, test), np.arange(5), test, "true")
    assert np.array_equal(laid, test.states[requests.row])


def test_what_rests_at_the_goal_does_not_enter_it():
    here = np.tile(GOAL, (6, 1))
    away = np.tile(GOAL + np.array([0, 0, 3.0]), (6, 1))
    comes = np.concatenate([away[:3], here[:3]])
    assert path_goal_entries(np.stack([here, away, comes])).tolist() == [False, False, True]


def test_rollouts_that_repeat_the_context_are_refused(store, tmp_path):
    "A perfect model that writes whole trials would have its context scored as its future."
    test = trial_set(store, None)
    (file,) = write_requests(store, tmp_path / "requests.npz", ["move"])
    _, about = read_arrays(file, ("states", "context", "horizon"))
    _, asked, _, _ = plan_requests(test, Protocol(["move"], split=None, cap=0, keep=0), [])
    steps = np.arange(asked.horizon.max())
    for name, first in {"whole": 0 * asked.context, "future": asked.context}.items():
        rolled = test.flat[asked.row.to_numpy()[:, None], np.minimum(first.to_numpy()[:, None] + steps, STEPS - 1)]
        answer = {"rollouts": rolled, "request": np.arange(len(asked))}
        path = write_rollout_arrays(tmp_path / f"{name}.npz", answer, {"digest": about["digest"], "model": name})
        with pytest.raises(BadData, match="begin with the steps shown") if name == "whole" else contextlib.nullcontext():
            assert score_files([path], file, store).record["non_finite"] == 0
