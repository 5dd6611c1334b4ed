"Scoring against slow, plain references, and what a faulty model or a damaged folder can do to it."

import dataclasses
import json
import sys
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aawm.data import open_trials
from aawm.errors import BadData, EnvironmentProblem, ModelContractError, UsageError
from aawm.evaluation import (
    SCORINGS, CopyLast, Protocol, Rollouts, Scorer, TrialSet, TrueWorld, collect, evaluate, evaluate_each, find_tasks, gather, multi_goal,
    plan_tasks, read_evaluation, roll_out, save, score, single_goal, trial_set, true_rollouts,
)
from aawm.evaluation.intervals import DRAWS
from aawm.evaluation.results import IDENTITY, model_record, take_model
from aawm.evaluation.rollouts import REQUEST
from aawm.evaluation.worlds import on_device
from aawm.evaluation.scores import OUTCOME_COLUMNS, SCORE_COLUMNS, score_events
from aawm.evaluation.tasks import MULTI_GOAL_SCENARIOS, TASK_TABLE
from aawm.models import build, pretrained
from aawm.files import sha256
from aawm.schema import GOAL, STEPS
from aawm.tests.conftest import ROOT

STRICT = SCORINGS["strict"]
LOWER_IS_BETTER = ("false_positive", "ade", "fde")


@pytest.fixture(scope="module")
def store(arena_store):
    return arena_store


@pytest.fixture(scope="module")
def test(store):
    return trial_set(store, split=None)


@pytest.fixture(scope="module")
def asked(test):
    plan = plan_tasks(find_tasks(), test, STRICT, curve_trials=3)
    return plan, collect(plan)


def noisy(test, requests, seed=0, strength=0.02):
    "True rollouts with noise; some freeze early, in some an object turns up at the goal, so that labels take both values."
    draw = np.random.default_rng(seed)
    rollouts = true_rollouts(requests, test)
    steps = rollouts.steps + draw.normal(0, strength, rollouts.steps.shape).astype(np.float32)
    for offset, horizon in zip(rollouts.offset, requests.horizon):
        path = steps[offset : offset + horizon].reshape(-1, 5, 7)
        path[draw.integers(0, horizon) :, draw.integers(0, 3), :3] = GOAL + draw.uniform(0, 6)
        cut = min(draw.choice([5, horizon]), horizon - 1)
        path[cut + 1 :] = path[cut]
    return Rollouts(requests, steps)


def made_up(paths, pickup, goal, scenario):
    "One test-out trial from object paths `[3, 300, 3]`."
    states = np.zeros((1, STEPS, 5, 7), dtype=np.float32)
    states[..., 6] = 1
    states[0, :, :3, :3] = np.moveaxis(np.asarray(paths), 0, 1)
    pickup = np.array([pickup])
    goal = np.array([goal])
    return TrialSet(
        states, np.array([0]), np.array([0]), np.array([scenario]), pickup, goal, (pickup >= 0).sum(1) == 1,
        (goal >= 0).sum(1) == 3, "made-up", None
    )


def carried(start, end, since, until):
    return np.array(start) + np.interp(np.arange(STEPS), [since, until], [0, 1])[:, None] * (np.array(end) - start)


def beside(path):
    "The path of an object, and of two that lie still."
    return [path, np.zeros((STEPS, 3)) + [2, 0, 0], np.zeros((STEPS, 3)) + [-2, 0, 0]]


def overall(plan, rollouts, test, tasks, rules=STRICT):
    "Scores over all behaviours, by task, target and metric."
    scores = score(Scorer(plan, rollouts, test, rules), tasks)["scores"]
    return scores[scores.behavior == "all"].set_index(["task", "target", "metric"])


# strict scores, written once more, slowly


def slow_entry(path):
    far = [np.sqrt(((step - GOAL) ** 2).sum()) for step in path.astype(np.float64)]
    return any(before >= 2.0 > after for before, after in zip(far, far[1:]))


def slow_length(path):
    path = path.astype(np.float64)
    return sum(np.sqrt(((after - before) ** 2).sum()) for before, after in zip(path, path[1:]))


def of_trial(rollouts, test, row, context, horizon):
    "Last shown step and rollout of one trial, `[1 + horizon, 5, 7]`."
    number = rollouts.requests.query(
        f"row == {row} and context == {context} and horizon == {horizon} and start == 0"
    ).index[0]
    rolled = rollouts.steps[rollouts.offset[number] :][:horizon].reshape(-1, 5, 7)
    return np.concatenate([test.states[row, context - 1 : context], rolled])


@pytest.mark.parametrize("seed", range(3))
def test_single_goal_agrees_with_a_slow_reference(test, asked, seed):
    plan, requests = asked
    rollouts = noisy(test, requests, seed, 0.3)
    scores, _, outcomes, _ = score(Scorer(plan, rollouts, test, STRICT), find_tasks("single_goal_later")).values()
    hits = []
    misses = []
    left_out = 0
    for row in np.flatnonzero(test.single_goal):
        thing = int(np.argmax(test.pickup_step[row] >= 0))
        context = test.pickup_step[row, thing] + 5
        inside = [np.flatnonzero(np.linalg.norm(test.states[row, :, k, :3] - GOAL, axis=-1) < 2) for k in range(3)]
        if inside[thing][0] < context:
            left_out += 1
            continue
        path = of_trial(rollouts, test, row, context, STEPS - context)
        hits.append(slow_entry(path[:, thing, :3]))
        misses += [slow_entry(path[:, k, :3]) for k in range(3) if k != thing and not len(inside[k])]
    table = scores[scores.behavior == "all"].set_index("metric")
    assert table.value["recall"] == np.mean(hits) and table.value["false_positive"] == np.mean(misses)
    both = len(hits) + len(misses)
    counts = {"recall": len(hits), "ceiling": len(hits), "false_positive": len(misses), "auc": both, "recall_at_false_0.2": both}
    assert table["count"].to_dict() == counts
    score_of = outcomes.score.to_numpy()
    above = score_of[outcomes.truth][:, None] - score_of[~outcomes.truth]
    assert np.isclose(table.value["auc"], ((above > 0) + 0.5 * (above == 0)).mean())
    assert ((score_of > 0.5) == outcomes.prediction).all(), "nearness parts ties alone"
    assert table.left_out["recall"] == left_out
    assert len(outcomes) == len(hits) + len(misses)


def test_moves_and_errors_agree_with_a_slow_reference(test, asked):
    plan, requests = asked
    rollouts = noisy(test, requests, 4, 0.003)
    scores, curves, *_ = score(Scorer(plan, rollouts, test, STRICT), find_tasks(["move", "error_by_step"])).values()
    pairs = []
    errors = []
    drift = []
    for row in range(len(test)):
        context = 50
        if test.single_goal[row]:
            context = test.goal_step[row].max() + 10
            context = context if context < STEPS else context - 10
        elif test.multi_goal[row]:
            context = np.sort(test.pickup_step[row])[1]
        path = of_trial(rollouts, test, row, context, STEPS - context)
        truth = test.states[row, context - 1 :]
        pairs += [(slow_length(truth[:, k, :3]) > 4, slow_length(path[:, k, :3]) > 4) for k in range(3)]
        path = of_trial(rollouts, test, row, 50, 250)[..., :3]
        truth = test.states[row, 49:, :, :3]
        errors.append(np.sqrt(((path - truth).astype(np.float64) ** 2).sum(-1))[1:])
        drift += [slow_length(path[:, k]) for k in range(3) if slow_length(truth[:, k]) <= 0.1]
    true, said = np.array(pairs).T
    table = scores[scores.behavior == "all"].set_index("metric").value
    assert table["precision"] == (true & said).sum() / said.sum() and table["recall"] == (true & said).sum() / true.sum()
    assert 0 < table["recall"] < 1 and table["accuracy"] == (true == said).mean()
    assert np.isclose(table["f1"], 2 * table["precision"] * table["recall"] / (table["precision"] + table["recall"]))
    assert (np.isclose(table["ade"], np.mean(errors)) and np.isclose(table["fde"], np.mean(errors, 0)[-1].mean()))
    ade = curves[curves.curve == "ade"].sort_values("step")
    assert np.allclose(ade.value, np.mean(errors, (0, 2))) and ade.step.tolist() == list(range(1, 251))
    last = curves[(curves.curve == "displacement_still") & (curves.step == 250)].iloc[0]
    assert np.isclose(last.value, np.mean(drift)) and last["count"] == len(drift)


def test_behaviors_add_up_to_all(test, asked):
    plan, requests = asked
    scores = score(Scorer(plan, noisy(test, requests), test, STRICT), find_tasks())["scores"]
    scores = scores[scores.metric.isin(["recall", "false_positive", "accuracy"])]
    for _, part in scores.groupby(["task", "target", "metric"]):
        whole = part[part.behavior == "all"].iloc[0]
        parts = part[part.behavior != "all"]
        assert whole["count"] == parts["count"].sum() and whole.left_out == parts.left_out.sum()
        if whole["count"]:
            assert np.isclose(whole.value, np.average(parts.value.fillna(0), weights=parts["count"]))


def test_errors_of_a_behavior_are_over_the_trials_that_it_takes_part_in(test, asked):
    plan, requests = asked
    frozen = roll_out(CopyLast(), requests, test, progress=False)
    scores = score(Scorer(plan, frozen, test, STRICT), find_tasks("error_by_step"))["scores"]
    scores = scores.query("metric == 'ade'").set_index("behavior").value
    far = np.linalg.norm(test.states[:, 50:, :, :3].astype(float) - test.states[:, 49:50, :, :3], axis=-1).mean((1, 2))
    assert np.isclose(scores["all"], far.mean())
    for behavior, part in (("random", "random"), ("single-step", "gathering"), ("chasing", "runner"), ("static", "static")):
        assert np.isclose(scores[behavior], far[[part in name for name in test.scenario]].mean()), behavior


def test_intervals_are_those_of_a_slow_bootstrap_over_trials(test, asked):
    plan, requests = asked
    tables = score(Scorer(plan, noisy(test, requests, 4, 0.003), test, STRICT), find_tasks(["move", "error_by_step"]))
    scores, curves, outcomes, _ = tables.values()
    counts = outcomes.assign(hit=outcomes.truth & outcomes.prediction).groupby("trial")[["hit", "truth"]].sum().to_numpy()
    drawn = counts[np.random.default_rng(1).integers(len(counts), size=(20_000, len(counts)))].sum(1)
    drawn = drawn[:, 0] / drawn[:, 1]
    row = scores.query("task == 'move' and metric == 'recall' and behavior == 'all'").iloc[0]
    # an end is one of `DRAWS` resamples: its rank is known to four standard errors
    for end, share in ((row.low, 0.025), (row.high, 0.975)):
        error = 4 * np.sqrt(share * (1 - share) / DRAWS)
        assert np.quantile(drawn, share - error) <= end <= np.quantile(drawn, share + error)
    assert row.low < row.value < row.high
    assert (curves.low <= curves.value + 1e-12).all() and (curves.high >= curves.value - 1e-12).all()


def test_goals_at_the_last_step_are_harder(test):
    tasks = [single_goal(final=True), single_goal(), multi_goal(final=True)]
    plan = plan_tasks(tasks, test, STRICT)
    requests = collect(plan)
    away = true_rollouts(requests, test)
    ends = away.offset + requests.horizon.to_numpy() - 1
    away.steps[ends] = test.states[requests.row, 0].reshape(-1, 35)
    scores = overall(plan, away, test, tasks).value
    last = scores["single_goal_offset_+0_final", "object"]
    assert scores["single_goal_offset_+0", "object", "recall"] == 1 and last["recall"] == 0 and last["ceiling"] == 1
    assert (scores["multi_goal_final"][:, "recall"] == 0).all()


# what does not count


def test_a_delivery_that_began_before_the_context_ends_is_left_out():
    paths = beside(carried([0, 0, 0], [0, 0, -5], 100, 120))
    test = made_up(paths, [100, -1, -1], [121, -1, -1], "gathering_static")
    inside = int(test.first_inside()[0, 0])
    assert 110 < inside < 120
    for offset in (inside - 100, inside - 99):
        result = plan_tasks([single_goal(offset)], test, STRICT)
        assert set(result.left_out) == ({""} if offset == inside - 100 else {"event began"})
        table = overall(result, true_rollouts(collect(result), test), test, [single_goal(offset)])
        counted = offset == inside - 100
        recall = table.xs("recall", level="metric").iloc[0]
        assert (recall["count"], recall.left_out) == ((1, 0) if counted else (0, 1))
        assert recall.value == 1 if counted else np.isnan(recall.value)


def test_undelivered_objects_of_incomplete_trials_are_the_false_positive_side_of_multi_goals():
    paths = [carried([k, 0, 0], [k / 4, 0, -5 if k < 2 else 3], 60 * k + 40, 60 * k + 60) for k in range(3)]
    test = made_up(paths, [40, 100, 160], [61, 121, -1], "multistep_static")
    plan = plan_tasks(find_tasks("multi_goal"), test, STRICT)
    assert not test.multi_goal.any() and set(test.scenario) <= set(MULTI_GOAL_SCENARIOS)
    assert plan[["target", "object", "context", "truth"]].values.tolist() == [["3rd", 2, 100, False]]
    scores = overall(plan, true_rollouts(collect(plan), test), test, find_tasks("multi_goal"))
    assert scores.xs("false_positive", level="metric").value.tolist() == [0.0]


def test_contexts_with_nothing_to_show_or_predict_are_counted():
    paths = beside(carried([0, 0, 0], [0, 0, -5], 4, 299))
    test = made_up(paths, [4, -1, -1], [299, -1, -1], "gathering_static")
    tasks = [single_goal(-4), TASK_TABLE["move"], TASK_TABLE["pickup"]]
    plan = plan_tasks(tasks, test, STRICT)
    reasons = plan.groupby("task", sort=False).left_out.first().to_dict()
    assert reasons == {"single_goal_offset_-4": "nothing to show", "move": "", "pickup": "nothing to show"}
    assert plan[plan.task == "move"].context.tolist() == [299] * 3, "goal + 10 is past the end"
    scores = overall(plan, true_rollouts(collect(plan), test), test, tasks)
    assert scores.loc[("pickup", "object", "recall"), ["count", "left_out"]].tolist() == [0, 1]


# faulty rollouts

PLACES = [entity * 7 + axis for entity in range(5) for axis in range(3)]  # columns of positions


def values(scores):
    scores = scores[~scores.metric.str.endswith("_finite")]
    return scores.set_index(["task", "target", "metric", "behavior"]).value


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), bad=st.sampled_from([np.nan, np.inf, -np.inf, 20.5, -1e9, 1e30]))
def test_no_score_rises_where_a_rollout_is_replaced_by_nan(test, asked, data, bad):
    plan, requests = asked
    rollouts = noisy(test, requests, data.draw(st.integers(0, 5)), 0.05)
    steps = rollouts.steps.copy()
    for number in data.draw(st.lists(st.integers(0, len(requests) - 1), min_size=1, max_size=60, unique=True)):
        horizon = requests.horizon[number]
        first = data.draw(st.integers(0, horizon - 1)) if data.draw(st.booleans()) else 0
        column = data.draw(st.sampled_from(PLACES if np.isfinite(bad) else range(35)))
        steps[rollouts.offset[number] + first : rollouts.offset[number] + horizon, column] = bad
    tasks = find_tasks()
    before = score(Scorer(plan, rollouts, test, STRICT), tasks)
    after = score(Scorer(plan, Rollouts(requests, steps), test, STRICT), tasks)
    old, new = values(before["scores"]).align(values(after["scores"]), join="outer")
    worse = np.where(old.index.get_level_values("metric").isin(LOWER_IS_BETTER), new >= old, new <= old)
    assert (worse | old.isna() | new.isna()).all()
    assert (new.dropna()[old[new.dropna().index].isna()] == 0).all(), "what was undefined becomes zero at best"
    old, new = (each["curves"].query("not curve.str.endswith('_finite')").set_index(["curve", "step"]).value for each in (before, after))
    assert (new >= old).all()
    right, wrong = before["outcomes"], after["outcomes"]
    assert ((right.truth == right.prediction) | (wrong.truth != wrong.prediction)).all()


def test_faults_of_further_samples_are_counted(store):
    def faulty(states, context, horizon, generator=None, mode=False, privileged=None):
        calls.append(horizon)
        rollout = CopyLast().rollout(states, context, horizon).clone()
        rollout[1] = torch.nan
        return rollout

    calls = []
    record = evaluate(faulty, store, Protocol(tasks="multi_goal", split=None, goal_samples=3), progress=False).record
    rollouts = record["counts"]["rollouts"] // 3
    assert len(calls) == 3 and record["non_finite"] == 3 and record["faults"] == {"not finite": 3}
    assert record["counts"]["rollouts"] == 3 * rollouts > 6


def test_nan_in_a_rollout_is_counted(store, test):
    def faulty(states, context, horizon, generator=None, mode=False, privileged=None):
        rollout = CopyLast().rollout(states, context, horizon).clone()
        rollout[2, 7:] = torch.nan
        return rollout

    result = evaluate(faulty, store, Protocol(tasks="error_by_step", split=None), batch_size=30, progress=False)
    assert result.record["non_finite"] == 2
    ade = result.scores.query("behavior == 'all'").set_index("metric")
    assert np.isinf(ade.value["ade"]) and ade["count"]["ade_finite"] == len(test) - 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("place, every, said", [
    ([0.0, 3e38], 2, "beyond 20 m"), ([20.1, 0.0], 2, "beyond 20 m"), ([-19.0, 19.0], 2, "over 15 m in a step"),
    ([-19.0, 19.0], 1, "over 15 m in a step"),  # from the last step shown alone
])
def test_absurd_rollouts_are_counted_by_test_and_fail_as_nan_does(store, test, place, every, said):
    def flung(value):
        def rollout(states, context, horizon, generator=None, mode=False, privileged=None):
            future = CopyLast().rollout(states, context, horizon).clone()
            future[:, ::every, [0, 2]] = torch.tensor(value)
            return future

        return rollout

    tasks = ["move", "single_goal", "pickup", "error_by_step"]
    absurd, nothing = (
        evaluate(flung(value), store, Protocol(tasks=tasks, split=None), progress=False)
        for value in (place, [torch.nan] * 2)
    )
    count = absurd.record["counts"]["rollouts"]
    assert absurd.record["faults"] == {said: count} and absurd.record["non_finite"] == count
    assert nothing.record["faults"] == {"not finite": count}
    pd.testing.assert_frame_equal(values(absurd.scores).to_frame(), values(nothing.scores).to_frame())
    assert absurd.outcomes.prediction.ne(absurd.outcomes.truth).all()


OUTSIDE = """import sys
import torch

loads = [torch.nn.Linear(35, 35), {"more": torch.nn.Linear(35, 35)}]


class Mine:
    def rollout(self, states, context, horizon, **given):
        stay = states[torch.arange(len(states)), context - 1][:, None].repeat(1, horizon, 1)
        return RETURNED
"""


def outside(folder, returned, change=str):
    "A model of a file of its own."
    file = folder / "aawm" / "outside_of_the_package.py"  # a folder may be called like the package
    file.parent.mkdir(exist_ok=True)
    file.write_text(change(OUTSIDE.replace("RETURNED", returned)))
    sys.modules.pop(file.stem, None)
    return f"{file}:Mine"


@pytest.mark.parametrize("returned, change, said", [
    ("stay[:, :-1]", str, r"returns torch.float32 \[40, 249, 35\] on cpu; return a float tensor \[40, 250, 35\] on cpu .HERE, rollout at line 8"),
    ("stay[:-1]", str, r"\[39, 250, 35\]"), ("stay.unflatten(-1, (5, 7))", str, r"\[40, 250, 5, 7\]"), ("stay.long()", str, "returns torch.int64"),
    ("stay.numpy()", str, "returns ndarray"), ("stay.tolist()", str, "returns list"), ("None", str, "returns NoneType"),
    ("{}['position']", str, "fails with KeyError: 'position' .HERE, line 10"), ("sys.exit(3)", str, "fails with SystemExit: 3 .HERE, line 10"),
    ("stay.to('mps')", str, "fails with .*HERE, line 10"), ("1 * stay", lambda code: code.replace(", **given", ""), "fails with TypeError.*'generator'"),
    ("stay", lambda code: code + "    seed = 'first'", "cannot be recorded: ValueError: .*HERE, rollout at line 8"),
    ("stay", lambda code: code + "    privileged = 5", "cannot be read: TypeError"),
    ("stay", lambda code: code + "    privileged = 'all_of_it'", r"asks for \['all_of_it'\]"),
])  # fmt: skip
def test_a_models_own_error_or_wrong_form_is_one_line_with_its_place(store, tmp_path, monkeypatch, returned, change, said):
    if returned == "stay":  # what can be seen before any rollout
        monkeypatch.delattr("aawm.evaluation.worlds.roll_batch")
    with pytest.raises(ModelContractError, match=said.replace("HERE", "outside_of_the_package.py")) as raised:
        evaluate(outside(tmp_path, returned, change), store, Protocol(tasks="error_by_step", split=None), progress=False)
    assert "\n" not in str(raised.value)


HOLDERS = {
    "attributes": "    def __init__(self):\n        self.parts = loads\n",
    "an object of its own": "    def __init__(self):\n        self.inner = Mine.__new__(Mine)\n        self.inner.parts = loads\n",
    "a plain list of a network": "    parts = torch.nn.Identity()\n    def __init__(self):\n        self.net = torch.nn.Identity()\n        self.net.parts = loads\n",
    "a variable of its file": "    def used(self):\n        return loads\n    def rollout(self, states, context, horizon, **given):\n        return loads\n",
    "a part": "    def __init__(self):\n        self.rollout = functools.partial(Mine.rollout, self, parts=loads)\n",
}


@pytest.mark.parametrize("where", HOLDERS)
def test_all_networks_of_an_outside_model_are_moved_and_put_back(test, tmp_path, monkeypatch, where):
    model, _ = take_model(outside(tmp_path, "stay", lambda code: "import functools\n" + code + HOLDERS[where]))
    loads = sys.modules["outside_of_the_package"].loads
    networks = [loads[0], loads[1]["more"]]
    moved = []
    monkeypatch.setattr(torch.nn.Module, "to", lambda each, device: moved.append((each, str(device))) or each)
    with on_device(model, torch.device("cuda")):  # which this machine may lack
        assert [one for one in moved if isinstance(one[0], torch.nn.Linear)] == [(each, "cuda") for each in networks]
        assert not any(each.training for each in networks)
    assert moved[-2:] == [(each, "cpu") for each in networks] and all(each.training for each in networks)
    assert model_record(model, 0, test)["parameters"] == 2 * 36 * 35


def test_the_batch_changes_nothing_and_the_future_is_hidden(test, asked):
    _, requests = asked

    class Watching:
        name = "watching"
        variant = "test"
        privileged = ("end_state",)

        def rollout(self, states, context, horizon, generator=None, mode=False, privileged=None):
            step = torch.arange(states.shape[1])
            assert (states.isnan().all(-1) == (step >= context[:, None])).all(), "shown before the context ends, hidden after"
            assert horizon <= STEPS - 1 and not torch.is_grad_enabled()
            ahead = torch.arange(1, horizon + 1)[None, :, None]
            last = states[torch.arange(len(states)), context - 1][:, None]
            return last + (privileged["end_state"][:, None] - last) * ahead / 300

    whole, single = (roll_out(Watching(), requests, test, batch_size=size, progress=False) for size in (1000, 7))
    assert np.array_equal(whole.steps, single.steps)
    number = int(np.argmax(requests.horizon == 250))
    row = requests.row[number]
    context = requests.context[number]
    last, end = test.states[row, [context - 1, -1]].reshape(2, 35)
    assert np.allclose(whole.steps[whole.offset[number] + 29], last + (end - last) / 10, atol=1e-6)


def test_a_sampled_rollout_follows_from_the_trial_and_the_seed_alone(store, test, asked):
    torch.manual_seed(0)
    model = build("rssm_discrete")
    few = asked[1].iloc[::12].reset_index(drop=True)
    whole, other, second = (roll_out(model, few, test, progress=False, **more) for more in ({}, {"seed": 1}, {"number": 1}))
    backwards = np.arange(len(test))[::-2]
    turned = trial_set(open_trials(store).isel(trial=backwards), split=None)
    kept = few[few.row.isin(backwards)].sample(frac=1, random_state=0)
    rows = kept.row.map({row: place for place, row in enumerate(backwards)})
    there = roll_out(model, kept.assign(row=rows).reset_index(drop=True), turned, batch_size=5, progress=False)
    assert len(kept) > 3
    for place, number in enumerate(kept.index):
        same = whole.take(np.array([number]))[0]
        assert np.allclose(there.take(np.array([place]))[0], same, atol=1e-4), "in any order, in any batch, among other trials"
    for one, two in combinations((whole, other, second), 2):
        assert not np.allclose(one.steps, two.steps, atol=0.1), "the second rollout of one seed is not the first of the next"


def test_a_model_that_ranks_over_the_horizon_gives_the_same_beside_longer_rollouts(test):
    rows = [(0, 0, 200, 30), (1, 0, 262, 38), (2, 0, 200, 30), (3, 0, 270, 30)]
    requests = collect(pd.DataFrame(rows, columns=REQUEST).assign(left_out=""))
    model = pretrained("event_transformer")
    together, alone = (
        roll_out(model, part, test, progress=False)
        for part in (requests, requests.query("row == 0").reset_index(drop=True))
    )
    place = int(np.flatnonzero(requests.row == 0)[0])
    assert np.allclose(together.steps[together.offset[place] :][:30], alone.steps, atol=2e-3)
    asked_of = []

    def counting(states, context, horizon, generator=None, mode=False, privileged=None):
        asked_of.append(sorted((context + horizon - STEPS).tolist()))
        return CopyLast().rollout(states, context, horizon)

    roll_out(counting, requests, test, progress=False)
    assert asked_of == [[0, 8], [-70, -70]], "those to the end, and those of one horizon, apart"


@pytest.mark.parametrize("words, fault, said", [
    ("DefaultCPUAllocator: can't allocate memory", EnvironmentProblem, "single trial"),
    ("mat1 and mat2 shapes cannot be multiplied", ModelContractError, "mat1"),
])
def test_memory_that_never_suffices_is_told_from_a_model_that_breaks_down(test, asked, words, fault, said):
    def broken(*inputs, **named):
        raise RuntimeError(words)

    with pytest.raises(fault, match=said):
        roll_out(broken, asked[1], test, progress=False)


def test_what_models_must_say_of_themselves(test, asked):
    with pytest.raises(ModelContractError, match="true_staets"):
        roll_out(type("Nosy", (TrueWorld,), {"privileged": ("true_staets",)})(), asked[1], test, progress=False)
    with pytest.raises(UsageError, match=r"CopyLast is a class; give an instance, such as CopyLast\(\)"):
        roll_out(CopyLast, asked[1], test, progress=False)
    with pytest.raises(UsageError, match="needs a method `rollout`"):
        roll_out(type("Mute", (), {"rollout": None})(), asked[1], test, progress=False)


def test_a_network_with_a_rollout_alone_is_called_by_its_class_and_comes_back_as_it_was(store):
    class Calm(torch.nn.Module):
        seed = 7

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(5))

        def rollout(self, states, context, horizon, **named):
            assert not self.training
            return CopyLast().rollout(states, context, horizon)

    network = Calm().train()
    calm, frozen = (evaluate(model, store, Protocol(tasks="move", split=None), progress=False) for model in (network, CopyLast()))
    record = calm.record
    assert record["device"] == ("cuda" if torch.cuda.is_available() else "cpu"), "where it ran, not `auto`"
    assert network.training and record["parameters"] == 5 and record["seed"] == 7
    assert (record["model"], record["variant"]) == ("Calm", "corrected")
    pd.testing.assert_frame_equal(calm.scores, frozen.scores)


# keeping and gathering


@pytest.fixture(scope="module")
def evaluated(store):
    return evaluate(CopyLast(), store, Protocol(split=None, curve_trials=2), progress=False)


@pytest.fixture
def saved(evaluated, tmp_path):
    return save(evaluated, tmp_path / "an evaluation")


@pytest.mark.parametrize("name", ["record.json", "scores.csv", "curves.csv", "outcomes.parquet", "trial_curves.parquet", "rollouts.npz"])
def test_a_file_cut_short_is_refused(saved, name):
    content = (saved / name).read_bytes()
    for damaged in (content[: len(content) // 2], b""):
        (saved / name).write_bytes(damaged)
        with pytest.raises(BadData, match=name):
            read_evaluation(saved)


def reseal(folder, name):
    record = json.loads((folder / "record.json").read_text())
    record["files"][name] = sha256(folder / name)
    (folder / "record.json").write_text(json.dumps(record))


SEALED = {  # file -> other content of it
    "scores.csv": lambda path: path.write_text("a,b\n1,2\n1,2,3\n"),
    "curves.csv": lambda path: path.write_bytes(b"\xff\xfe"),
    "outcomes.parquet": lambda path: path.write_bytes(b"PAR1"),
    "rollouts.npz": lambda path: np.savez(path, steps=np.zeros((3, 35)), horizon=np.array(["many"])),
}


@pytest.mark.parametrize("name", SEALED)
def test_a_file_of_another_form_is_refused_whatever_the_record_says_of_it(saved, name):
    SEALED[name](saved / name)
    reseal(saved, name)
    with pytest.raises(BadData, match=name) as fault:
        read_evaluation(saved)
    assert "\n" not in str(fault.value)


def test_outcomes_say_whose_they_are_and_of_which_object(evaluated, saved, test):
    file = saved / "outcomes.parquet"
    table = pd.read_parquet(file)
    assert list(table)[:2] == ["model", "seed"] and set(table.model) == {"frozen_world"} and set(table.seed) == {0}
    pd.testing.assert_frame_equal(read_evaluation(saved).outcomes, evaluated.outcomes, check_dtype=False)
    row = {int(trial): place for place, trial in enumerate(test.trial)}
    for outcome in table.query("task == 'single_goal'").itertuples():
        place = row[outcome.trial]
        assert (outcome.object == test.pickup_order[place, 0]) == outcome.truth and outcome.scenario == test.scenario[place]
    table.assign(model="oracle").to_parquet(file, index=False)
    reseal(saved, file.name)
    with pytest.raises(BadData, match="expected columns"):
        read_evaluation(saved)


def test_other_data_and_other_splits_do_not_mix(store):
    one = evaluate(CopyLast(), store, Protocol(tasks="move", split=None), progress=False)
    for field, value in (("data_hash", "another"), ("split", "train"), ("thresholds", {})):
        other = dataclasses.replace(one, record=one.record | {"seed": 1, field: value})
        with pytest.raises(UsageError, match=field):
            gather([one, other])
    both = gather([one, dataclasses.replace(one, record=one.record | {"seed": 1})])
    assert both.scores.groupby("seed").size().tolist() == [len(one.scores)] * 2
    assert both.outcomes.seed.nunique() == 2 and len(both.records) == 2


def test_protocols_that_need_other_rollouts_are_not_answered_at_once(store):
    with pytest.raises(UsageError, match="apart"):
        evaluate_each(CopyLast(), store, [Protocol(seed=0), Protocol(seed=1)], progress=False)


def test_kept_rollouts_are_those_that_were_scored(store, test):
    def sampling(states, context, horizon, generator=None, mode=False, privileged=None):
        return CopyLast().rollout(states, context, horizon) + torch.randn(1, generator=generator)

    tasks = find_tasks(["single_goal", "error_by_step"])
    result = evaluate(sampling, store, Protocol(tasks=tasks, split=None, keep=2), progress=False)
    plan = plan_tasks(tasks, test, STRICT)
    requests = collect(plan)
    rolled = roll_out(sampling, requests, test, progress=False)
    kept = result.kept
    assert kept.requests.trial.tolist() == test.trial[kept.requests.row].tolist()
    for number, row in enumerate(rolled.find(kept.requests)):
        assert np.array_equal(kept.take(np.array([number]))[0], rolled.take(np.array([row]))[0])
    fifty = kept.requests[kept.requests.context == 50]
    assert (pd.Series(test.scenario[fifty.row]).value_counts() >= 2).all()
    assert len(evaluate(sampling, store, Protocol(tasks="move"), progress=False).kept) == 0


@pytest.mark.parametrize("name", ["single_goal", "multi_goal", "pickup", "move"])
def test_scores_over_all_behaviours_alone_are_those_of_the_whole(test, name):
    "What the thresholds are tried with computes what is kept, and nothing else."
    task, = find_tasks(name)
    plan = plan_tasks([task], test, STRICT)
    rollouts = roll_out(CopyLast(), collect(plan), test, progress=False)
    whole = score_events(Scorer(plan, rollouts, test, STRICT), task)["scores"]
    part = score_events(Scorer(plan, rollouts, test, STRICT), task, whole=False)["scores"]
    kept = whole.query("behavior == 'all' and metric not in ['auc', 'recall_at_false_0.2']").reset_index(drop=True)
    assert part.equals(kept) and len(part) < len(whole)


def test_the_published_context_is_labelled_and_shown_late(test):
    published = SCORINGS["published"]
    tasks = find_tasks(["single_goal_later", "error_by_step"])
    plan = plan_tasks(tasks, test, published)
    assert (plan.left_out == "").all() and set(plan[plan.task == "error_by_step"].start) == {50}
    requests = collect(plan)
    frozen = roll_out(CopyLast(), requests, test, progress=False)
    late = np.flatnonzero(requests.start == 50)
    assert np.array_equal(frozen.steps[frozen.offset[late]], test.states[requests.row[late], 99].reshape(-1, 35))
    true = test.states[:, 50:].reshape(-1, 250, 35).astype(np.float64)
    nowhere = Rollouts(requests, np.full_like(frozen.steps, np.nan))  # what is not a number becomes 0
    for rollouts, origin in ((frozen, test.states[:, 99].reshape(-1, 1, 35)), (nowhere, 0)):
        scores = overall(plan, rollouts, test, tasks, published).value
        assert np.isclose(scores["error_by_step", "all", "ade"], np.linalg.norm(true - origin, axis=-1).mean())


def test_one_page_names_every_column_of_scores_and_outcomes():
    text = json.loads((ROOT / "nbs/evaluation/00_overview.ipynb").read_text())
    table = next("".join(cell["source"]) for cell in text["cells"] if "## All columns" in "".join(cell["source"]))
    assert not [name for name in (*SCORE_COLUMNS, *OUTCOME_COLUMNS, *IDENTITY) if f"`{name}`" not in table]


@pytest.mark.parametrize("change", ["nothing", "seed", "weights"])
def test_a_stopped_evaluation_goes_on_where_it_was(asked, test, tmp_path, change):
    class Stopped(torch.nn.Module):
        name, variant, privileged = "stopped", "corrected", ()
        batches = []

        def rollout(self, states, context, horizon, generator=None, mode=False, privileged=None):
            self.batches.append(len(states))
            if len(self.batches) == 3:
                raise KeyboardInterrupt
            return self.weight * CopyLast().rollout(states, context, horizon)

    world = Stopped()
    world.weight = torch.nn.Parameter(torch.ones(1))
    again = lambda seed: roll_out(world, asked[1], test, seed, batch_size=9, progress=False, keep=tmp_path / "0")
    with pytest.raises(KeyboardInterrupt):
        again(0)
    world.weight.data *= 1.5 if change == "weights" else 1.0
    steps = again(int(change == "seed")).steps
    done = sum(world.batches[3:])
    assert done == len(asked[1]) - (sum(world.batches[:2]) if change == "nothing" else 0)
    assert np.array_equal(steps, roll_out(world, asked[1], test, progress=False).steps)
