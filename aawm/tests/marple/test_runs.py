"""Planner, simulator and store: shortest, replayed, resumed, and whole or refused."""

import dataclasses
import json
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aawm import marple
from aawm.errors import AawmError, Interrupted
from aawm.marple.furnishing import draw_house
from aawm.marple.houses import AGENT, HEADING
from aawm.marple.inference import read_prefix
from aawm.marple.pairs import (
    LAYOUT, Plan, generate_pairs, house_of, replays, verify_pairs,
)
from aawm.marple.planner import costs_to_go, replay
from aawm.marple.vocabulary import AHEAD, FORWARD
from aawm.marple.worlds import World, arrays, pose_number

SCENARIOS = st.sampled_from(list(marple.SCENARIOS))


def breadth_first(house, piece, start) -> int:
    "Moves until a pose faces a piece, by a plain search over poses."
    cells = set(house.furniture[piece].cells)
    waiting = deque([(tuple(start), 0)])
    seen = {tuple(start)}
    while waiting:
        (x, y, heading), moves = waiting.popleft()
        ahead = x + AHEAD[heading][0], y + AHEAD[heading][1]
        if ahead in cells:
            return moves
        for pose in (
            (x, y, (heading - 1) % 4), (x, y, (heading + 1) % 4),
            *([(*ahead, heading)] if house.free[ahead[1], ahead[0]] else [])
        ):
            if pose not in seen:
                seen.add(pose)
                waiting.append((pose, moves + 1))
    raise AssertionError("no way")


@settings(max_examples=25, deadline=None)
@given(SCENARIOS, st.integers(0, 20), st.integers(0, 10**6))
def test_costs_to_go_equal_a_breadth_first_search(name, number, seed):
    house = house_of(name, number % 5)
    rng = np.random.default_rng(seed)
    start = house.starts()[rng.integers(len(house.starts()))]
    piece = int(rng.integers(len(house.furniture)))
    assert costs_to_go(house)[piece, pose_number(start, house.width)] == breadth_first(
        house, piece, start.tolist()
    )


@settings(max_examples=15, deadline=None)
@given(SCENARIOS, st.integers(0, 10**6))
def test_a_run_is_as_short_as_can_be_leg_by_leg(name, seed):
    house = house_of(name, seed % 5)
    scenario = marple.SCENARIOS[name]
    run = marple.plan(house, scenario.culprit, seed=seed)
    place = 0
    for step, (goal, last) in zip(marple.program(house, scenario.culprit), run.ends().items()):
        walked = int((run.actions[place : last + 1] <= 4).sum() - (run.actions[place : last + 1] == 1).sum())
        assert walked == breadth_first(house, step.piece, run.poses[place].tolist()) and step.subgoal == goal
        place = last + 1


def test_a_walker_errs_as_often_as_its_slips_say_and_exact_inference_knows_how_often():
    pairs = {slips: [Plan(40, houses=2).pair(k, slips) for k in range(0, 200, 5)] for slips in (0.0, 0.1)}
    wrong, moves = 0, 0
    for run in (run for pair in pairs[0.1] for run in pair.runs):
        step, costs = 0, costs_to_go(run.house)
        for goal, last in zip(marple.program(run.house, run.mission), run.ends().values()):
            cost = costs[goal.piece, pose_number(run.poses[step : last + 2 - goal.times], run.house.width)]
            wrong += int((np.diff(cost) >= 0).sum())
            moves += len(cost) - 1
            step = last + 1
    assert abs(wrong / moves - 0.1) < 4 * np.sqrt(0.09 / moves) and moves > 2000
    assert [pair.runs[0].text for pair in pairs[0.0]] == [Plan(40, houses=2).pair(k).runs[0].text for k in range(0, 200, 5)]
    likelihoods = {
        slips: sum(
            read_prefix(run.house, run.mission, marple.look(run, len(run)), slips=slips)[0]
            for pair in pairs[0.1]
            for run in pair.runs
        )
        for slips in (0.0, 0.05, 0.1, 0.2)
    }
    assert max(likelihoods, key=likelihoods.get) == 0.1


@settings(max_examples=15, deadline=None)
@given(SCENARIOS, st.integers(0, 10**6))
def test_replay_equals_stored_states(name, seed):
    pair = marple.draw_pair(house_of(name, seed % 5), name, seed)
    for run in pair.runs:
        states = run.states()
        for state, (x, y, heading) in zip(states, run.poses):
            assert state[y, x, AGENT] == 1 and state[y, x, HEADING] == heading + 1
        assert (replay(pair.house, run.poses[0], run.actions, run.targets) == states).all()
    replays([pair])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_many_agents_at_once_do_what_each_does_alone(seed):
    rng = np.random.default_rng(seed)
    house = house_of(*(("laundry", 0) if seed % 2 else ("shower", 1)))
    poses = house.starts()[rng.integers(len(house.starts()), size=6)]
    together = World(house, poses)
    alone = [World(house, [pose]) for pose in poses]
    for _ in range(60):
        actions = np.where(rng.random(6) < 0.5, FORWARD, rng.integers(0, 11, 6))
        done = together.step(actions)
        assert done.tolist() == [bool(world.step([action])[0]) for world, action in zip(alone, actions)]
    seen = arrays(together)
    for k, world in enumerate(alone):
        assert (together.pose[k] == world.pose[0]).all() and (seen[k] == arrays(world)[0]).all()


def test_nothing_gets_lost_in_random_play():
    house = house_of("laundry", 0)
    rng = np.random.default_rng(0)
    world = World(house, house.starts()[::3])
    for _ in range(300):
        world.step(
            np.where(
                rng.random(len(world)) < 0.6, rng.integers(2, 5, len(world)), rng.integers(1, 11, len(world))
            )
        )
        held = world.on == -1
        cells = world.cell
        assert ((cells == -1) == held).all()
        for row in range(0, len(world), 40):
            lying = cells[row][~held[row]]
            assert len(set(lying.tolist())) == len(lying)
    assert (world.on == -1).any() and world.state.std() > 0


def test_a_store_that_was_interrupted_ends_in_the_same_bytes(tmp_path, monkeypatch):
    whole = generate_pairs(tmp_path / "whole", 3, seed=4, houses=2, progress=False)
    assert verify_pairs(whole)["counts"]["pairs"] == 15
    monkeypatch.setattr("aawm.marple.pairs.LAYOUT", dataclasses.replace(LAYOUT, chunk=4))
    drawn = []
    draw = Plan.pair

    def interrupted(plan, index):
        if index == 9 and 9 not in drawn:
            drawn.append(9)
            raise KeyboardInterrupt
        drawn.append(index)
        return draw(plan, index)

    monkeypatch.setattr(Plan, "pair", interrupted)
    with pytest.raises(Interrupted, match="8 of 15"):
        generate_pairs(tmp_path / "again", 3, seed=4, houses=2, progress=False)
    again = generate_pairs(tmp_path / "again", 3, seed=4, houses=2, progress=False)
    assert drawn == [*range(10), *range(8, 15)]  # what was kept is not made again
    hashes = [json.loads((store / "manifest.json").read_text())["data_hash"] for store in (whole, again)]
    assert hashes[0] == hashes[1]
    with pytest.raises(AawmError):
        generate_pairs(tmp_path / "again", 3, seed=5, houses=2, progress=False)


def test_released_arrays_have_the_faults_of_the_release():
    house = draw_house("laundry", 1)
    run = marple.plan(house, "do_laundry", seed=1)
    clean = run.states()
    released = run.states(released=True)
    assert (clean[..., 3] == 103).sum() > (released[..., 3] == 103).sum()  # what is held is nowhere
    assert clean.shape == released.shape and (clean != released).any()
