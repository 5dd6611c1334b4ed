"""The player: what is drawn moves, what is labelled is what the evaluation labels, and a mistake is told in one line."""

import io
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import nbformat
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from aawm import cli
from aawm.data import generate
from aawm.errors import EnvironmentProblem, UsageError
from aawm.evaluation import SCORINGS
from aawm.evaluation.scores import event_rule
from aawm.runs import play
from aawm.schema import STEPS
from aawm.tests.conftest import note_requests
from aawm.training import fit
from aawm.viz import Player, Screen, View, read_events, save_animation, stills
from aawm.viz.player import EVENT_WORDS, describe_view, dispute_words


def wandering(seed=0, pace=0.06):
    "A made-up trial in which things wander, now and then near each other and the goal."
    draw = np.random.default_rng(seed)
    states = np.zeros((STEPS, 5, 7))
    states[..., [0, 2]] = (
        draw.uniform(-3, 3, (5, 2)) + draw.normal(0, pace, (STEPS, 5, 2)).cumsum(0) - [0, 1.5]
    )
    states[..., 1] = np.abs(draw.normal(0, 0.002, (STEPS, 5)).cumsum(0))
    states[:, 0, [0, 2]] = states[:, 3, [0, 2]] + 0.3
    states[..., -1] = 1
    return states


@pytest.fixture(scope="module")
def view():
    truth = wandering()
    return View(
        truth, {"rssm_discrete": wandering(2)[80:], "oracle": truth[80:]}, 80, {"pickup": [40, -1, 120]},
        privileged=("oracle",)
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    "A store of nine trials, and a run of two steps."
    folder = tmp_path_factory.mktemp("watched place")
    generate(folder / "trials", 18, seed=1, workers=1, progress=False)
    quick = {
        "steps": 2, "batch": 4, "validate_every": 2, "validation_windows": 4, "checkpoint_every": 2,
        "log_every": 1
    }
    small = {"recurrent_layers": 1, "recurrent_size": 8, "hidden_size": 8}
    fit(
        "multistep_predictor", folder / "trials", folder / "run", model_settings=small,
        training_settings=quick, device="cpu", progress=False
    )
    return folder


def leave(*words) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main(["play", *map(str, words)])
    return end.value.code or 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, STEPS - 1), st.sampled_from([0.01, 0.06, 0.2]))
def test_labels_are_those_of_strict_scoring(seed, context, pace):
    states = wandering(seed, pace)
    alone = states.copy()
    alone[:context] = states[context - 1]
    found = read_events(states, context)
    for event, measure in zip(EVENT_WORDS, ("pickup", "goal", "move")):
        rule = event_rule(measure, SCORINGS["strict"], SCORINGS["strict"].moved_rollout)
        wanted = rule(alone[None].astype(np.float64))[0]
        assert sorted(found[found.event == event].object) == np.flatnonzero(wanted).tolist(), event
    assert found.step.between(context - (context > 1), STEPS - 1).all()


def test_the_truth_agrees_with_itself_and_a_wild_or_short_rollout_with_nothing(view):
    told = view.labels.set_index(["source", "event", "object"]).agrees
    assert told["truth"].all() and told["oracle"].all() and not told["rssm_discrete"].all()
    rollouts = {
        "wild": np.where(np.arange(220)[:, None, None] == 100, np.inf, view.truth[80:]),
        "short": view.truth[80:-1],
        "longer": np.concatenate([view.truth[80:], view.truth[:1] * np.nan]),
    }
    odd = View(view.truth, rollouts, 80)
    for name, agrees in odd.labels.groupby("source").agrees:
        assert agrees.all() if name in ("truth", "longer") else not agrees.any(), name
    Screen(odd).pixels(200)


def test_where_rule_and_log_differ_no_rollout_is_wrong(view):
    "The log has another pickup than the rule: whatever a rollout holds is right by one of the two."
    seen = set(read_events(view.truth, 80).query("event == 'pickup'").object)
    other = {"pickup": [-1 if k in seen else 100 for k in range(3)]}
    against = View(view.truth, view.rollouts, 80, other)
    rows = against.labels.query("event == 'pickup'")
    assert len(against.disputes) == 3 and rows.disputed.all() and rows.agrees.all()
    assert against.labels.query("event != 'pickup'").disputed.sum() == 0
    told = [text.get_text() for axes in Screen(against, dpi=60).figure.axes for text in axes.texts]
    assert sum(
        text.endswith(" *") for text in told
    ) == 9 and "* rule and log differ" in told and told.count("* not judged") == 2
    assert "rule and log differ" in describe_view(against) and "rule no, log yes" in " ".join(
        dispute_words(against)
    )
    assert all(words in Player(against).status.value for words in dispute_words(against))
    agreed = View(view.truth, view.rollouts, 80, {"pickup": [150 if k in seen else 20 for k in range(3)]})
    assert agreed.disputes.empty, "what is logged in the context and over by its end is no dispute"


def test_context_and_rollout_look_different(view):
    screen = Screen(view)
    shape = screen.show(79).stages["rssm_discrete"].shapes["obj1"]
    assert shape.get_alpha() == 1 and screen.words["rssm_discrete"].get_text() == "shown"
    screen.show(80)
    assert shape.get_alpha() < 1 and screen.words["rssm_discrete"].get_text() == "imagined, +1"
    assert (
        screen.words["truth"].get_text() == "happened"
        and screen.stages["truth"].shapes["obj1"].get_alpha() == 1
    )


@pytest.mark.parametrize("models", [0, 1, 5])
def test_nothing_is_clipped(models):
    truth = wandering()
    kinds = ("honey jar", "backpack", "purse")
    rollouts = {f"model_{k}": truth[50:] for k in range(models)}
    screen = Screen(
        View(
            truth, rollouts, 50 if models else None, {}, "trial 7: leader, follower", kinds,
            ("leader (robot 0)", "follower (robot 1)")
        )
    )
    screen.pixels(60)
    renderer = screen.figure.canvas.get_renderer()
    room = screen.figure.bbox.padded(1)
    texts = [
        text
        for axes in screen.figure.axes
        for text in (*axes.texts, axes.title, axes._left_title)
        if text.get_text()
    ]
    texts += [text for legend in screen.figure.legends for text in legend.get_texts()]
    for text in texts:
        box = text.get_window_extent(renderer)
        assert room.contains(box.x0, box.y0) and room.contains(box.x1, box.y1), text.get_text()


def test_the_player_plays_scrubs_and_steps(view):
    player = Player(view, step=10)
    before = player.picture.value
    assert Image.open(io.BytesIO(before)).format == "JPEG"
    player.slider.value = 90
    assert player.picture.value != before and "imagined, 11 steps" in player.status.value
    steps = []
    player.slider.value = 0
    for _ in range(100):
        player.forth.click()
        steps.append(player.slider.value)
    assert sorted(set(steps)) == sorted({*view.events.step, view.context - 1} - {0}), "every event, in order"
    player.back.click()
    assert player.slider.value < steps[-1]
    bare = player.picture.value
    player.trace.value = 100
    assert player.picture.value != bare
    with pytest.raises(UsageError, match="speed"):
        Player(view, speed=3)


def test_the_stills_stay_where_nobody_plays(view, monkeypatch):
    from aawm.viz import player as module

    shown = []
    monkeypatch.setattr(module, "display", lambda data, **more: shown.append((data, more)))
    for name in ("JPY_SESSION_NAME", "VSCODE_PID", "VSCODE_CWD"):
        monkeypatch.delenv(name, raising=False)
    Player(view)._ipython_display_()
    assert len(shown) == 1 and shown[0][1]["metadata"]["image/png"]["alt"] == describe_view(
        view, module.moments(view)
    )
    monkeypatch.setenv("JPY_SESSION_NAME", "page.ipynb")
    Player(view)._ipython_display_()
    assert "application/vnd.jupyter.widget-view+json" in shown[1][0] and "image/png" in shown[2][0], "live: the widget, and the stills for later"


def test_stills_can_be_chosen(view):
    figure, alt = stills(view, [0, 100])
    assert len(figure.axes) == 6 and "steps 0, 100" in alt and "RSSM Discrete" in alt


def test_views_that_cannot_be(view):
    for more, words in [
        (dict(rollouts={"a": view.truth}), "context"),
        (dict(context=STEPS), "1 to 299"),
        (dict(rollouts={"truth": view.truth}, context=5), "truth"),
    ]:
        with pytest.raises(UsageError, match=words):
            View(view.truth, **more)
    with pytest.raises(UsageError, match="unknown event"):
        View(view.truth, logged={"pickups": [1, 2, 3]}).events


def test_an_animation_is_a_gif(view, tmp_path):
    path = save_animation(view, tmp_path / "trial.gif", every=30, dpi=50)
    again = save_animation(view, tmp_path / "again.gif", every=30, dpi=50)
    assert Image.open(path).n_frames == 11 and path.read_bytes() == again.read_bytes()
    for more in (dict(speed=0), dict(first=50, last=20), dict(every=0)):
        with pytest.raises(UsageError):
            save_animation(view, path, **more)


def test_a_trial_of_a_store_is_rolled_out_as_in_an_evaluation(place):
    view = play.view_trial(place / "trials", 3, [place / "run"], context=60)
    assert list(view.rollouts) == ["multistep_predictor"] and view.rollouts["multistep_predictor"].shape == (
        STEPS - 60, 35
    )
    seen = []

    def spy(states, context, horizon, generator=None, mode=False, privileged=None):
        seen.append(states.clone())
        return states[:, :1].expand(-1, horizon, -1)

    play.view_trial(place / "trials", 3, [spy], context=60)
    assert seen[0][0, 60:].isnan().all() and np.allclose(
        seen[0][0, :60], view.truth[:60].reshape(60, 35)
    ), "the future is hidden"


def test_play_writes_a_page_or_an_animation(place, tmp_path, capsys):
    words = (place / "trials", "--trial", 2, "--run", place / "run", "--run", "frozen_world", "--context", 40)
    assert leave(*words, "--no-open", "--out", tmp_path / "page.ipynb") == 0
    cells = nbformat.read(tmp_path / "page.ipynb", as_version=4).cells
    filled = next(cell.source for cell in cells if "injected-parameters" in cell.metadata.get("tags", ()))
    values = {}
    exec(filled, values)
    assert (
        values["trial"] == 2 and values["context"] == 40
        and values["runs"] == f"{(place / 'run').resolve()},frozen_world"
    )
    assert leave(*words, "--save", tmp_path / "trial.gif") == 0
    assert Image.open(tmp_path / "trial.gif").n_frames > 100
    assert "written" in capsys.readouterr().out


def test_without_jupyterlab_the_page_is_still_named(monkeypatch, tmp_path):
    monkeypatch.setattr(play.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentProblem, match="page.ipynb"):
        play.open_page(tmp_path / "page.ipynb")


@pytest.fixture
def lab(place):
    "A JupyterLab on a page with the player; the address of the page."
    page = play.write_page(
        place / "pages" / "watch.ipynb",
        {"trials": str(place / "trials"), "trial": 1, "runs": str(place / "run"), "context": 60}
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = [
        "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}", "--IdentityProvider.token=watch",
        f"--ServerApp.root_dir={page.parent}"
    ]
    own = {
        f"JUPYTER_{name}_DIR": str(place / "jupyter" / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")
    } | {"IPYTHONDIR": str(place / "ipython")}
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options], env=os.environ | own, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{address}/api", timeout=10)
                break
            except (urllib.error.URLError, OSError):
                assert server.poll() is None, "JupyterLab does not start"
                time.sleep(0.5)
        yield f"{address}/lab/tree/{page.name}?token=watch"
    finally:
        server.terminate()
        server.wait(60)


@pytest.mark.slow
def test_the_player_in_jupyterlab(browser, lab):
    page = browser.new_page(viewport={"width": 1400, "height": 1300})
    page.set_default_timeout(240_000)
    outside = []
    note_requests(page, outside, "http://127.0.0.1", "ws:")
    page.goto(lab)
    page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    # the kernel runs: asked before, JupyterLab wants to know which one
    page.wait_for_selector("text=/\\| Idle/")
    page.click(".lm-MenuBar-itemLabel:text-is('Run')")
    page.click(".lm-Menu-itemLabel:text-is('Run All Cells')")
    player = page.locator(".aawm-player")
    player.locator("img").wait_for()
    player.scroll_into_view_if_needed()
    status = player.locator(".widget-html-content").last
    handle = player.locator(".noUi-handle").first

    def step() -> int:
        return int(status.inner_text().split()[1])

    def reach(wanted) -> int:
        "Wait until the step is as wanted."
        end = time.time() + 600
        while not wanted(step()):
            assert time.time() < end, f"the player stays at step {step()}"
            page.wait_for_timeout(100)
        page.wait_for_timeout(1000)  # the picture follows
        return step()

    def picture() -> np.ndarray:
        return np.asarray(
            Image.open(io.BytesIO(player.locator("img").screenshot())).convert("RGB"), dtype=float
        )

    assert reach(lambda now: now == 59) == 59 and "shown" in status.inner_text()
    assert not page.locator(
        ".jp-OutputArea:has(.aawm-player) .jp-RenderedImage"
    ).first.is_visible(), "the stills wait behind the player"
    at_context = picture()
    player.locator(
        "button[title='Play, pause, stop, repeat'], .widget-play button, .jupyter-widget-play button"
    ).first.click()
    reach(lambda now: now > 66)
    player.locator(".widget-play button, .jupyter-widget-play button").first.click()
    page.wait_for_timeout(2000)
    paused = step()
    assert paused > 66 and "imagined" in status.inner_text()
    page.wait_for_timeout(1500)
    assert step() == paused, "paused"
    assert np.abs(picture() - at_context).max() > 50, "the picture has changed"
    handle.focus()
    page.keyboard.press("Home")
    assert reach(lambda now: now == 0) == 0
    player.locator("button[title='To the next event']").click()
    assert reach(lambda now: now > 0) > 0
    assert outside == [], "nothing is fetched from elsewhere"
    page.close()
