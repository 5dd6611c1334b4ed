"""Pictures in 3D: the same for the same trial where there is something to draw with, one clear line where there is not."""

import subprocess
import sys

import mujoco
import numpy as np
import pytest

from aawm.errors import EnvironmentProblem
from aawm.schema import AGENTS, OBJECTS
from aawm.sim import render, simulate


@pytest.fixture(scope="module")
def trial():
    "One in which something is carried."
    return next(
        trial
        for trial in (simulate("multistep_static", seed) for seed in range(50))
        if "goal" in " ".join(trial.events.event)
    )


@pytest.fixture
def nothing_to_draw_with(monkeypatch):
    monkeypatch.setattr(render, "HEADLESS", ("nowhere",))
    monkeypatch.setattr(render.sys, "platform", "linux")
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    render.backend.cache_clear()
    yield
    render.backend.cache_clear()


def test_without_anything_to_draw_with_one_line_says_what_to_install(trial, nothing_to_draw_with):
    assert not render.can_render()
    with pytest.raises(EnvironmentProblem, match=r"tried nowhere.*install EGL .*or OSMesa") as fault:
        render.still(trial, 0)
    assert "\n" not in str(fault.value)


def test_a_driver_that_hangs_is_nothing_to_draw_with(monkeypatch, nothing_to_draw_with):
    def hang(command, **options):
        raise subprocess.TimeoutExpired(command, 60)

    monkeypatch.setattr(render.subprocess, "run", hang)
    assert not render.can_render()


def test_nothing_asks_for_a_screen_until_a_picture_is_wanted():
    code = "import sys, aawm.sim.render; sys.exit(any(name.startswith(('OpenGL', 'torch')) for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_everything_is_put_where_the_states_have_it(trial):
    model = render.stage_model(trial.object_kinds)
    data = mujoco.MjData(model)
    held = render.grasping_robots(trial.states)
    way = render.reaching(held, rate=30)
    carried = np.flatnonzero((held >= 0).any(1))
    assert len(carried) > 30
    for frame in (0, 700, int(carried[len(carried) // 2]), 1499):
        state = trial.states[frame]
        render.posture(model, data, state, trial.object_kinds, way[frame])
        for name, pose in zip((*OBJECTS, *AGENTS), state):
            assert np.allclose(data.body(name).xpos[:2], pose[[0, 2]], atol=1e-5), name
        magnets = {
            a: [
                data.body(b).xpos
                for b in range(model.nbody)
                if model.body(b).name.startswith(a) and model.body(b).name.endswith("magnet")
            ]
            for a in AGENTS
        }
        for k, agent in enumerate(held[frame]):
            if agent >= 0:
                nearest = min(
                    np.linalg.norm(place - data.body(OBJECTS[k]).xpos) for place in magnets[AGENTS[agent]]
                )
                assert nearest < 0.5, "an arm is at the object that it carries"
        assert all(0.2 < place[2] < 1.2 for a in AGENTS for place in magnets[a])


@pytest.mark.skipif(not render.can_render(), reason="neither EGL nor OSMesa")
def test_pictures_show_the_trial_and_repeat(trial, tmp_path):
    look = render.Look(width=160, height=110, shadow=512)
    one, two = (render.pictures(trial, [0, 700, 1400], look=look) for _ in "ab")
    assert one.dtype == np.uint8 and one.shape == (3, 110, 160, 3) and np.array_equal(one, two)
    assert all(picture.std() > 10 for picture in one) and not np.array_equal(one[0], one[1])
    red = render.pictures(
        trial, [0], look=render.Look(observer="#FF0000", width=160, height=110, shadow=512)
    )[0].astype(int)
    assert ((red[..., 0] - red[..., 1]) > 60).sum() > 20, "colours can be chosen"
    steps = render.pictures(trial.states[::5], [140], trial.object_kinds, look=look)[0]
    assert np.abs(steps.astype(int) - one[1]).mean() < 2, "a store's step looks as the frame does"
    film = render.animate(trial, tmp_path / "trial.gif", range(0, 300, 100), look=look)
    assert film.read_bytes()[:6] == b"GIF89a" and not list(tmp_path.glob(".part*"))
