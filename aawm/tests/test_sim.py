"""The simulator: the same trial every time, in any process and order, and events that mean what they say."""
import hashlib
import math
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aawm.errors import UsageError
from aawm.schema import EVENTS, GOAL, OBJECT_KINDS, SCENARIO_ROLES, SCENARIOS, event_object
from aawm.sim import FIDELITIES, SIMULATOR_SETTINGS, ArenaSettings, draw_scenario, simulate
from aawm.sim.calibration import describe
from aawm.sim.simulate import moved_untouched
from aawm.sim.planning import clear_line, plan_path, shrink
from aawm.sim.arena import arm_joints
from aawm.sim.scene import continuous


def fingerprint(job):
    trial = simulate(*job)
    return hashlib.sha256(trial.states.tobytes() + repr(trial.events.values.tolist()).encode()).hexdigest()


@pytest.fixture(scope="module")
def trials():
    return [simulate(draw_scenario(3, i), (3, i), FIDELITIES[i % 4 == 3]) for i in range(63)]


def test_same_bytes_in_any_process_and_order():
    jobs = [(scenario, (8, i), FIDELITIES[i % 2]) for i, scenario in enumerate(SCENARIOS)]
    here = [fingerprint(job) for job in jobs]
    assert len(set(here)) == len(jobs)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        elsewhere = list(pool.map(fingerprint, jobs[::-1]))
    assert elsewhere[::-1] == here


def test_trials_have_the_form_of_released_ones(trials):
    for trial in trials:
        assert trial.states.shape == (1500, 5, 7) and trial.states.dtype == np.float32
        assert list(trial.events.columns) == ["frame", "agent", "event"]
        assert trial.events.frame.dtype == trial.events.agent.dtype == np.int64
        assert trial.events.frame.is_monotonic_increasing and trial.events.frame.between(0, 1499).all()
        assert set(trial.events.event) <= set(EVENTS) and set(trial.events.agent) <= {0, 1}
        assert sorted(trial.roles) == sorted(SCENARIO_ROLES[trial.scenario])
        assert len(set(trial.object_kinds)) == 3 and set(trial.object_kinds) <= set(OBJECT_KINDS)


def test_pickups_are_lifted_and_goals_are_near(trials):
    seen = {"pickup": 0, "goal": 0, "return": 0}
    for trial in trials:
        held = {}
        for frame, agent, event in trial.events.itertuples(index=False):
            k, kind = event_object(event), event.split("_")[0]
            x, height, z = trial.states[frame, k, :3] if k >= 0 else (0, 0, 0)
            if kind == "pickup":
                away = np.hypot(*(trial.states[frame, 3 + agent, [0, 2]] - (x, z)))
                assert 0.1 < height < 0.6 and away < 0.8, (trial, event)
                held[k] = agent
            if kind in ("goal", "return"):
                assert held.pop(k) == agent, "delivered by the robot that picked it up"
                assert height < 0.2
            if kind == "goal":
                assert math.dist((x, height, z), GOAL) < 1.9, (trial, event)
            seen[kind] = seen.get(kind, 0) + 1
    assert all(seen.values()), seen


def test_goal_rule_misses_no_goal_and_adds_none(trials):
    described = [describe(trial) for trial in trials if trial.rejected is None]
    assert len(described) > 60
    for one in described:
        logged = one["goal"] >= 0
        assert one["near"][logged].all()
        if one["single"] or one["multi"]:
            assert (one["near"] == logged).all()


def test_roles_without_a_purpose_move_little(trials):
    idle = [describe(t) for t in trials if not {"gathering", "multistep", "leader"} & set(t.roles)]
    assert len(idle) > 10 and np.mean([one["moved"] for one in idle]) < 0.15


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_a_static_robot_stays(fidelity):
    trial = simulate("gathering_static", 2, fidelity)
    static = trial.states[:, 3 + trial.roles.index("static"), :3]
    assert np.abs(static - static[0]).max() < 5e-3  # m: on wheels it settles


def lean(trial):  # degrees
    robots = trial.states[:, 3:]
    return np.degrees(2 * np.arcsin(np.hypot(robots[..., 3], robots[..., 5])))


def test_fidelities_differ_in_height_and_tilt_alone(trials):
    for trial in trials:
        robots = trial.states[:, 3:]
        if trial.fidelity == "planar":
            assert not robots[..., [1, 3, 5]].any()
        else:
            assert robots[..., 1].std() > 0 and lean(trial).max() > 0 and np.median(lean(trial)) < 0.5


def test_every_object_that_moved_was_touched(trials):
    for trial in trials:
        assert moved_untouched(trial.states, trial.contacts.itertuples(index=False)) is None, trial
    assert sum(len(trial.contacts) for trial in trials) > len(trials)


def test_scenarios_are_equally_likely_and_depend_on_root_and_index_alone():
    drawn = [draw_scenario(5, i) for i in range(1800)]
    counts = [drawn.count(scenario) for scenario in SCENARIOS]
    assert min(counts) > 150 and max(counts) < 250
    assert drawn[17] == draw_scenario(5, 17) and drawn != [draw_scenario(6, i) for i in range(1800)]


@pytest.mark.parametrize("call", [("chasing", 0), ("random_random", -1), ("random_random", 1.5), ("random_random", 0, "real")])
def test_wrong_calls_are_told(call):
    with pytest.raises(UsageError):
        simulate(*call)


def test_settings_for_the_manifest_are_complete():
    assert {"mujoco_version", "timestep", "fidelity", "sleep", "aim_spread"} <= set(SIMULATOR_SETTINGS)
    assert SIMULATOR_SETTINGS["timestep"] == ArenaSettings().timestep


def test_no_torch():
    code = "import sys, aawm.sim; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


spot = st.integers(-5000, 5000).map(lambda millimetres: millimetres / 1000)


@given(st.lists(st.tuples(spot, spot, st.floats(0.2, 0.8)), max_size=4), spot, spot)
@example([(0.0, 0.0625, 0.5)], 0.5, 0.0)  # starts so close to the rim that the planner makes the disc smaller
@settings(max_examples=60, deadline=None)
def test_paths_are_clear_and_end_at_the_goal(discs, x, z):
    start, goal = (x, z), (-6.0, 6.0)
    path = plan_path(start, goal, discs)
    assert path[-1] == goal
    if len(path) > 1:
        assert all(clear_line(a, b, shrink(discs, start, goal)) for a, b in zip([start] + path, path))


@given(st.floats(0.3, 0.6), st.floats(-0.2, 0.2))
def test_arm_reaches_where_it_is_told(ahead, aside):
    s = ArenaSettings()
    for side in (-1, 0, 1):
        shoulder, elbow, wrist = arm_joints(ahead, aside, s, side)
        tip = [s.shoulder + s.arm_link * (math.cos(shoulder) + math.cos(shoulder + elbow)),
               side * s.shoulder_width / 2 + s.arm_link * (math.sin(shoulder) + math.sin(shoulder + elbow))]
        assert np.allclose(tip, [ahead, aside], atol=1e-6) and abs(shoulder + elbow + wrist) < 1e-9


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_signs_do_not_matter_and_nothing_jumps(seed):
    random = np.random.default_rng(seed)
    steps = np.cumsum(random.normal(scale=0.05, size=(50, 4)), axis=0) + random.normal(size=4)
    steps /= np.linalg.norm(steps, axis=-1, keepdims=True)
    flipped = steps * random.choice([-1.0, 1.0], size=(50, 1))
    assert np.allclose(continuous(flipped), continuous(steps))
    assert (continuous(flipped)[0, 3] >= 0) and ((continuous(flipped)[1:] * continuous(flipped)[:-1]).sum(-1) > 0).all()
