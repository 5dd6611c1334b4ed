"""Exact inference and its action model: equal to enumeration, symmetric, and blind to what it may not see."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aawm import marple
from aawm.errors import UsageError
from aawm.marple.evidence import Evidence
from aawm.marple.houses import House, Piece, Room, Thing
from aawm.marple.inference import NOISE, TYPES, exact_method, imagine, query_stage, read_prefix, stages
from aawm.marple.missions import mission
from aawm.marple.pairs import Plan, house_of
from aawm.marple.vocabulary import AHEAD, FORWARD, LEFT, NULL, RIGHT, kind_id
from aawm.marple.worlds import pose_number, pose_of

# query actions
LIGHT = (97, 5)
BALL = (5, 8)
LIT = mission("light", "toggle light/K=on; idle bin/K")
FETCH = mission("fetch", "pickup ball@bin/K; toggle light/K=on")
CLOSE = dict(max_examples=15, deadline=None)


def tiny() -> House:
    "A house of 5 x 5 cells with a bin, a ball in it, and a light."
    pieces = (Piece(kind_id("bin"), 1, 1, 0, number=4), Piece(kind_id("light"), 3, 3, 0, number=6))
    return House(5, 5, (Room("Kitchen", 1, 1, 3, 3),), (), pieces, (Thing(5, 1, 1, 0, number=5),))


def far(house, cell, pose) -> int:
    "Fewest moves to face a cell, tried one length after the other."
    front = cell
    layer = {pose}
    moves = 0
    seen = {pose}
    while not any((x + AHEAD[h][0], y + AHEAD[h][1]) == front for x, y, h in layer):
        layer = {
            after for here in layer for after in (walked(house, here, a) for a in (FORWARD, LEFT, RIGHT))
        } - seen
        seen |= layer
        moves += 1
    return moves


def walked(house, pose, action):
    x, y, heading = pose
    if action == FORWARD:
        ahead = x + AHEAD[heading][0], y + AHEAD[heading][1]
        return (*ahead, heading) if house.free[ahead[1], ahead[0]] else pose
    return (x, y, (heading + {LEFT: -1, RIGHT: 1}.get(action, 0)) % 4)


def choices(house, steps, stage, pose):
    "All actions with their chances, written down from the words of the model alone: (action, chance, next stage, next pose)."
    slips = {action: NOISE / TYPES for action in range(1, 11)}
    if stage == len(steps):
        best = []
    else:
        piece = house.furniture[steps[stage].piece]
        cost = far(house, (piece.x, piece.y), pose)
        best = [steps[stage].action] if cost == 0 else [
            a
            for a in (FORWARD, LEFT, RIGHT)
            if far(house, (piece.x, piece.y), walked(house, pose, a)) == cost - 1
        ]
    for action, slip in slips.items():
        chance = slip + (1 - NOISE) / len(best) * (
            action in best
        ) if best else slip + (1 - NOISE) * (action == 1)
        ends = bool(best) and cost == 0 and action == steps[stage].action
        yield action, chance, stage + ends, walked(house, pose, action) if action in (
            FORWARD, LEFT, RIGHT
        ) else pose


def enumerated(house, steps, goal, stage, pose, left) -> float:
    "The chance that stage `goal` is passed within some steps, over every sequence of actions."
    if stage > goal:
        return 1.0
    if left == 0:
        return 0.0
    return sum(
        chance * enumerated(house, steps, goal, later, there, left - 1)
        for _, chance, later, there in choices(house, steps, stage, pose)
    )


@pytest.mark.parametrize("found, query", [(LIT, LIGHT), (FETCH, LIGHT), (FETCH, BALL)], ids=["light", "fetch light", "fetch ball"])
def test_sampled_agents_reach_the_query_as_often_as_all_sequences_say(found, query):
    house = tiny()
    steps = stages(house, found)
    goal = query_stage(steps, query)
    for pose in [(2, 1, 1), (3, 1, 0), (1, 2, 3)]:
        for left in (1, 2, 4):
            number = int(pose_number(np.array(pose), house.width))
            chance = enumerated(house, steps, goal, 0, pose, left)
            sampled = (imagine(house, found, number, agents=20_000, steps=left)[0] > goal).mean()
            assert abs(sampled - chance) <= 4 * np.sqrt(chance * (1 - chance) / 20_000)


@settings(**CLOSE)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=5), st.integers(0, 23))
def test_the_likelihood_of_any_prefix_equals_the_product_of_chances(actions, start):
    house = tiny()
    pose = tuple(house.starts()[start].tolist())
    for found in (LIT, FETCH):
        steps = stages(house, found)
        stage = 0
        here = pose
        total = 1.0
        poses = [pose]
        for action in actions:
            _, chance, stage, here = next(
                choice for choice in choices(house, steps, stage, here) if choice[0] == action
            )
            total *= chance
            poses.append(here)
        targets = [97 if action == 5 else 0 for action in actions]
        evidence = Evidence(
            house, len(actions), np.array(poses), np.array(actions, np.uint8), np.array(targets, np.uint8)
        )
        log, reached = read_prefix(house, found, evidence)
        assert np.isclose(np.exp(log), total) and reached == stage


@pytest.mark.parametrize("slips", [0.0, 0.2])
def test_chances_of_all_sequences_sum_to_one(slips):
    house = tiny()
    total = 0.0
    for actions in itertools.product([NULL, *range(2, 11)], repeat=3):
        poses = [(2, 2, 0)]
        for action in actions:
            poses.append(walked(house, poses[-1], action))
        targets = [{5: 97, 8: 5}.get(action, 0) for action in actions]
        evidence = Evidence(
            house, 3, np.array(poses), np.array(actions, np.uint8), np.array(targets, np.uint8)
        )
        total += np.exp(read_prefix(house, LIT, evidence, slips=slips)[0])
    assert np.isclose(total, 1)


@settings(**CLOSE)
@given(st.sampled_from(list(marple.SCENARIOS)), st.integers(0, 10**6), st.sampled_from(marple.VARIANTS), st.sampled_from(["exact", "softmax", "ratio"]),
       st.sampled_from([0.5, 0.6, 0.8, 1.0]))
def test_swapping_the_agents_turns_p_into_one_minus_p(name, seed, variant, rule, weight):
    pair = marple.draw_pair(house_of(name, seed % 4), name, seed)
    tau = seed % (pair.horizon + 1)
    one = marple.combine(*marple.exact(pair.house, pair.runs, tau, name, weight, variant), rule)
    other = marple.combine(*marple.exact(pair.house, pair.runs[::-1], tau, name, weight, variant), rule)
    assert np.isclose(one, 1 - other, atol=1e-9)


@settings(**CLOSE)
@given(st.sampled_from(list(marple.SCENARIOS)), st.integers(0, 10**6))
def test_nothing_after_tau_reaches_a_method(name, seed):
    pair = marple.draw_pair(house_of(name, seed % 4), name, seed)
    rng = np.random.default_rng(seed)
    tau = seed % (min(map(len, pair.runs)) - 1)
    changed = []
    for run in pair.runs:
        actions = run.actions.copy()
        targets = run.targets.copy()
        poses = run.poses.copy()
        actions[tau:], targets[tau:] = rng.integers(1, 11, len(run) - tau), rng.integers(
            0, 105, len(run) - tau
        )
        poses[tau + 1 :] = 3
        changed.append(
            replace(
                run, actions=actions, targets=targets, poses=poses, mission="unknown", query_step=None,
                seed=None
            )
        )
    given_to = [marple.exact(pair.house, runs, tau, name) for runs in (pair.runs, changed)]
    assert given_to[0] == given_to[1]


def test_no_mission_and_no_name_reaches_a_method():
    pair = Plan(1, houses=1).pair(0)
    seen = []

    def spy(house, evidence, query, preferences):
        seen.append((evidence, query, preferences))
        return 0.5, 0.5

    marple.score_pairs([pair], spy, variant="V+A+L")
    for evidence, query, preferences in seen:
        for one in evidence:
            assert not {"mission", "name", "run", "seed", "culprit", "query_step"} & set(vars(one))
            assert len(one.actions) == one.tau == len(one.poses) - 1 and "mission" not in repr(one)
        assert preferences[0] == preferences[1] and set(preferences[0].values()) == {0.5} and len(query) == 2


def test_bad_questions_get_one_line():
    pair = Plan(1, houses=1).pair(0)
    for arguments, word in (
        ((3, "pilow"), "pillow"), ((3, (1, 2)), "unknown scenario"), ((-1, "pillow"), "tau"),
        ((3, "pillow", 1.4), "prior"), ((3, "pillow", "all"), "prior"), ((3, "laundry", 0.8), "prefer"),
        ((3, "pillow", 0.5, "V+X"), "variant")
    ):
        with pytest.raises(UsageError, match=word) as raised:
            marple.exact(pair.house, pair.runs, *arguments)
        assert "\n" not in str(raised.value)
    for answer in ((0.2, 1.4), ("a", "b"), ([0.1, 0.2], 0.3), None, np.ones((2, 2)), {"p_a": 0.5}):
        with pytest.raises(UsageError, match="two probabilities") as raised:
            marple.evaluate(lambda *all, answer=answer: answer, pair.house, pair.runs, 3, "pillow")
        assert "\n" not in str(raised.value)


def test_a_mission_of_ones_own_can_be_inferred_from_all_evidence():
    house = marple.golden_house()
    nap = mission("nap", "open closet/B; pickup ball@closet/B; close closet/B")
    asked = marple.Scenario("nap", "Who took the ball?", "nap", "change_outfit", BALL, 3)
    runs = [marple.plan(house, found, (11, 13, 3), scenario=asked) for found in (nap, "change_outfit")]
    tau = int(np.flatnonzero(runs[0].subgoals == 1)[0])  # the closet is open: the ball or the clothes
    for variant in marple.VARIANTS:
        p = marple.exact(house, runs, tau, asked, ({nap: 0.5, "change_outfit": 0.5},) * 2, variant)
        assert (min(p), max(p)) == (0.5, 0.5) if "L" not in variant else p[0] > 0.9 > 0.1 > p[1]


def test_a_stubborn_method_and_the_culprit_told():
    pairs = [Plan(4, houses=2).pair(k) for k in range(20)]
    table = marple.score_pairs(pairs, lambda *all: (0.5, 0.5), "none")
    assert (
        (table.accuracy == 0.5).all() and not marple.summary(table).reached.any()
        and marple.summary(table).loc["mean", "evidence needed"] == 1
    )
    assert marple.summary(marple.score_pairs(pairs, exact_method)).loc["mean", "evidence needed"] < 0.8
    assert pose_of(np.array([7]), 5).shape == (1, 3)
