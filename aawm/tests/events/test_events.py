"Labels: the published rules give the released code's answers; both sets agree with slow plain implementations."


import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from aawm.errors import UsageError
from aawm.events import carries, first_pickup, lift_start, path_goal_entries, path_goals, path_length, path_moves, pickups
from aawm.events import labels
from aawm.events.labels import LEAST_RISE
from aawm.events.tensors import carries as torch_carries
from aawm.sim import simulate
from aawm.tests.conftest import FIXTURES

LABELS = FIXTURES / "labels" / "labels.npz"


@pytest.fixture(scope="module")
def released():
    with np.load(LABELS) as file:
        return dict(file)


@pytest.mark.parametrize("states, tag, threshold", [("states", "true", 0.1), ("rollouts", "rollout", 4.0)])
def test_published_labels_are_the_released_codes(released, states, tag, threshold):
    state = released[states].reshape(-1, 300, 5, 7)
    xyz = np.moveaxis(state[..., :3, :3], 2, 1)
    assert np.array_equal(path_goals(xyz, rules="published"), released[f"goal_{tag}"])
    assert np.array_equal(path_goals(xyz, final=True, rules="published"), released[f"goal_final_{tag}"])
    assert np.array_equal(path_moves(xyz, threshold, "published"), released[f"move_{tag}"])
    assert np.array_equal(pickups(state, "published"), released[f"pickup_{tag}"])


def test_the_hand_made_trials_meet_released_criterion_4(released, monkeypatch):
    "Without the criterion two more objects would count as picked up, so the parity test above does exercise it."
    state = released["states"].reshape(-1, 300, 5, 7)
    monkeypatch.setattr(labels, "END_SHARE", 0.5)
    anyway = pickups(state)
    assert (anyway & ~pickups(state, "published"))[-4:].sum() == 2


# slow and plain: one trial, one object, one step at a time


def plain_goal(xyz, final, rules, radius=2.0):
    xyz = np.where(np.isfinite(xyz), xyz, 0) if rules == "published" else xyz
    near = [sum((a - b) ** 2 for a, b in zip(point, (0, 0.5, -6))) ** 0.5 < radius for point in xyz.tolist()]
    far = (rules == "strict" or sum((a - b) ** 2 for a, b in zip(xyz[0].tolist(), xyz[-1].tolist())) ** 0.5 > 1.0)
    return far and (near[-1] if final else any(near))


def plain_length(xyz, rules):
    xyz = np.where(np.isfinite(xyz), xyz, 0) if rules == "published" else xyz
    total = 0.0
    for before, after in zip(xyz[:-1].tolist(), xyz[1:].tolist()):
        change = [abs(b - a) for a, b in zip(before, after)]
        total += sum(change) if rules == "published" else sum(c * c for c in change) ** 0.5
    return total


def plain_carry(state, k, rules, share=0.2, lifted=(0.001, 0.6), rise=0.2):
    steps = len(state)
    state = np.where(np.isfinite(state), state, 0) if rules == "published" else state
    carried = np.zeros(steps, bool)
    for agent in (3, 4):
        held = []
        change = []
        for t in range(steps):
            now = state[t, k, :3]
            before = state[max(t - 1, 0), k, :3]
            finite = np.isfinite(now).all() and np.isfinite(before).all() and np.isfinite(state[t, agent, [0, 2]]).all()
            change.append(abs(now[1] - before[1]) if finite else 0.0)
            held.append(
                finite
                and lifted[0] < now[1] < lifted[1]
                and np.abs(now - before).sum() > 1e-5
                and np.hypot(now[0] - state[t, agent, 0], now[2] - state[t, agent, 2]) < 0.8
            )
        t = 0
        while t < steps:
            end = t
            while end < steps and held[end]:
                end += 1
            length = end - t
            if length > 5:
                peak = int(np.argmax(change[t:end]))
                if rules == "published":
                    good = not 0.1 <= 100 * peak / length <= 0.9
                else:
                    lay = min(float(height) for height in state[: t + 1, k, 1] if not np.isnan(height))
                    high = max(float(height) for height in state[t:end, k, 1]) - lay > rise
                    good = high and min(peak, length - 1 - peak) <= share * (length - 1) + 1e-9
                carried[t:end] |= good
            t = end + 1
    return carried


def test_what_is_knocked_over_is_no_pickup():
    "A robot that fetches two objects knocks the third one over; the log knows of two pickups."
    trial = simulate("multistep_static", seed=1)
    states = trial.states[::5]
    logged = [f"pickup_{k}" in set(trial.events.event) for k in range(3)]
    toppled = logged.index(False)
    rise = np.ptp(states[:, toppled, 1])
    assert 0.1 < rise < LEAST_RISE and pickups(states, "published")[toppled] and pickups(states, rise=0.1)[toppled]
    assert pickups(states).tolist() == logged == [True, False, True]
    assert torch_carries(torch.as_tensor(states[None])).any(1)[0].tolist() == logged


def test_a_robot_that_stops_with_what_it_carries_still_carries_it():
    state = np.zeros((40, 5, 7))
    state[:, 3, 0] = state[:, 0, 0] = np.clip(np.arange(40) - 20, 0, None) * 0.1
    state[5:, 0, 1] = 0.4  # lifted at once, then nothing moves for 15 steps
    found = carries(state)[:, 0]
    assert not found[:20].any() and found[21:].all()
    assert np.array_equal(torch_carries(torch.as_tensor(state[None]))[0, :, 0].numpy(), found)


number = st.one_of(st.floats(-7, 7, width=32), st.sampled_from([0.0, np.nan, np.inf, -np.inf]))
paths = hnp.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 12), st.just(3)), elements=number)
both_rules = st.sampled_from(["strict", "published"])


@settings(max_examples=400, deadline=None)  # of one to four paths: about a thousand
@given(paths, st.booleans(), both_rules, st.sampled_from([2.0, 1.5, 4.0]))
def test_goals_and_moves_agree_with_plain_code(xyz, final, rules, radius):
    with np.errstate(invalid="ignore"):
        assert path_goals(xyz, final, rules, radius).tolist() == [
            plain_goal(path, final, rules, radius) for path in xyz
        ]
        lengths = np.array([plain_length(path, rules) for path in xyz])
    finite = np.isfinite(lengths)
    np.testing.assert_allclose(path_length(xyz, rules)[finite], lengths[finite], rtol=1e-4, atol=1e-5)
    clear = finite & (np.abs(lengths - 4.0) > 1e-3)
    assert np.array_equal(path_moves(xyz, rules=rules)[clear], lengths[clear] > 4.0)
    assert not path_moves(xyz, rules=rules)[~finite].any()


def walk(seed, trials=3, steps=100):
    "Trials in which objects hop on and off the floor near the robots, so that all criteria are met and missed."
    draw = np.random.default_rng(seed)
    state = np.zeros((trials, steps, 5, 7), np.float32)
    state[..., :3] = np.cumsum(draw.normal(0, 0.05, (trials, steps, 5, 3)), axis=1)
    up = draw.random((trials, steps, 3)) < draw.choice([0.03, 0.1], size=(trials, 1, 3))
    lifted = np.cumsum(up, axis=1) % 2
    state[..., :3, 1] = (
        np.where(lifted, draw.choice([0.0, 0.2, 0.58], (trials, 1, 3)), 0) + draw.normal(0, 0.01, up.shape)
    )
    hold = draw.random((trials, steps, 3, 1)) < 0.1
    state[:, 1:, :3, :3] = np.where(hold[:, 1:], state[:, :-1, :3, :3], state[:, 1:, :3, :3])
    return state


@settings(max_examples=112, deadline=None)  # of three trials with three objects: a thousand
@given(
    seed=st.integers(0, 2**32 - 1),
    rules=both_rules,
    share=st.sampled_from([0.0, 0.1, 0.2]),
    damaged=st.booleans(),
    lifted=st.sampled_from([(0.001, 0.6), (0.05, 0.6), (0.001, 0.25)]),
    rise=st.sampled_from([0.0, 0.1, 0.2]),
)
def test_pickups_agree_with_plain_code(seed, rules, share, damaged, lifted, rise):
    state = walk(seed)
    if damaged:
        draw = np.random.default_rng(seed)
        state[draw.random(state.shape) < 0.002] = draw.choice([np.nan, np.inf])
    plain = np.stack([[plain_carry(trial, k, rules, share, lifted, rise) for k in range(3)] for trial in state])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels, "END_SHARE", share)
        assert np.array_equal(np.moveaxis(carries(state, rules, lifted=lifted, rise=rise), -1, 1), plain)
        assert np.array_equal(pickups(state, rules, lifted=lifted, rise=rise), plain.any(-1))
        if lifted == (0.001, 0.6) and rise == 0.2:
            assert np.array_equal(first_pickup(state, rules), np.where(plain.any(-1), plain.argmax(-1), -1))


def test_walks_hold_both_answers():
    "The trials above are no vacuous test."
    labels = np.stack([pickups(walk(seed)) for seed in range(20)])
    assert 0.1 < labels.mean() < 0.9


@given(paths)
def test_an_entry_is_a_goal_that_did_not_start_inside(xyz):
    inside = np.stack([path_goals(xyz[:, step : step + 1]) for step in range(xyz.shape[1])], axis=1)
    entered = [any(b and not a for a, b in zip(row[:-1], row[1:])) for row in inside]
    assert path_goal_entries(xyz).tolist() == entered


@pytest.mark.parametrize("call", [
    lambda: path_goals(np.zeros((0, 3))), lambda: path_goals(np.zeros((5, 3)), rules="paper"), lambda: path_moves(np.zeros(3)),
    lambda: pickups(np.zeros((10, 7, 5))), lambda: lift_start(np.zeros((2, 10, 5, 7)), [[1, 2, 3]]),
    lambda: lift_start(np.zeros((10, 5, 7)), [1, 2, 10]),
])
def test_bad_calls_are_usage_errors(call):
    with pytest.raises(UsageError):
        call()
