"""Pairs made with AAWM's arena, and the card of a store."""

import numpy as np
import pytest

from aawm import infant
from aawm.errors import AawmError, UsageError
from aawm.evaluation.rollouts import FrozenWorld
from aawm.infant import arena_violations
from aawm.infant.arena_violations import COMPARED, SHOWN, arena_surprise, violations_table, make_pairs, try_pair
from aawm.schema import AGENT_INDEX, GOAL, GOAL_RADIUS, OBJECT_INDEX


@pytest.fixture(scope="module")
def pairs():
    return {display: make_pairs(display, 2, seed=11) for display in SHOWN}


def delivered(states) -> int:
    "How many objects end near the observer."
    return int((np.linalg.norm(states[-1, OBJECT_INDEX, :3] - GOAL, axis=-1) < GOAL_RADIUS).sum())


def test_members_are_equal_up_to_the_branch_and_differ_after_it(pairs):
    for some in pairs.values():
        for pair in some:
            expected, odd = pair.states
            assert np.array_equal(expected[: pair.branch + 1], odd[: pair.branch + 1])
            assert np.abs(np.subtract(*pair.happened)).max() > 0.1
            others = np.abs(np.diff(pair.states[:, :, AGENT_INDEX][:, :, 1 - pair.actor, :3], axis=1)).max()
            assert others < 0.05, "the other robot stands still"


def test_endings_are_what_they_are_called(pairs):
    brought = {
        display: [[delivered(states) for states in pair.states] for pair in some]
        for display, some in pairs.items()
    }
    assert all(
        expected - odd == 1 for name in ("delivery", "pickup") for expected, odd in brought[name]
    ), brought
    assert all(expected == odd == 2 for expected, odd in brought["detour"]), brought
    for pair in pairs["detour"]:
        ways = np.linalg.norm(
            np.diff(pair.states[:, pair.branch :, AGENT_INDEX][:, :, pair.actor, :3], axis=1), axis=-1
        ).sum(1)
        assert ways[1] > ways[0] + 1


def test_one_seed_gives_the_same_pair(pairs):
    one, other = pairs["delivery"]
    assert try_pair("delivery", one.seed).states.tobytes() == one.states.tobytes() != other.states.tobytes()
    with pytest.raises(UsageError, match="display"):
        make_pairs("escape", 1)


def test_the_last_allowed_try_may_give_the_last_pair(pairs, monkeypatch):
    one = pairs["delivery"][0]  # less moves in its expected member
    monkeypatch.setattr(arena_violations, "try_pair", lambda display, seed: one if seed[2] == 1 else None)
    monkeypatch.setattr(arena_violations, "PAIR_TRIES", 2)
    assert make_pairs("delivery", 1) == [one] and make_pairs("delivery", 0) == []
    with pytest.raises(AawmError, match="only 1 of 2 pairs"):
        make_pairs("delivery", 2)


def test_a_model_that_knows_what_is_expected_is_right_and_sees_nothing_after_the_branch(pairs):
    class Prophet:
        "Knows the expected members."

        def __init__(self, some):
            self.futures = [
                pair.states[0, pair.branch + 1 : pair.branch + 1 + COMPARED].reshape(COMPARED, -1)
                for pair in some
            ]

        def rollout(self, states, context, horizon, generator=None):
            assert all(
                states[row, length:].isnan().all() and not states[row, :length].isnan().any()
                for row, length in enumerate(context)
            )
            return states.new_tensor(np.repeat(self.futures, len(states) // len(self.futures), 0))

    for display, some in pairs.items():
        value = arena_surprise(Prophet(some), some, samples=2)
        assert (
            value.shape == (2, 2, COMPARED) and (value[:, 0] == 0).all() and (value[:, 1].mean(-1) > 0).all()
        )
        table = violations_table({"prophet": Prophet(some), "frozen": FrozenWorld()}, {display: some}, samples=1)
        assert table.accuracy.tolist() == [1, 0.5], "how much moves tells nothing"


def test_a_card_is_made_from_the_store(tmp_path):
    store = infant.generate(tmp_path / "a", "imitation", 2, seed=3, progress=False)
    card = infant.dataset_card(store)
    assert "seed = 3" in card and "| imitation | E | 2 | 2 |" in card and "| imitation | NE | 4 | 2 |" in card
