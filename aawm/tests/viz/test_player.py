"""The player: what is drawn moves, what is labelled is what the evaluation labels, and a page plays in a browser, alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aawm import cli
from aawm.evaluation import SCORINGS
from aawm.evaluation.scores import event_rule
from aawm.runs import play
from aawm.schema import STEPS
from aawm.tests.conftest import note_requests
from aawm.training import fit
from aawm.viz import arena_replay, read_events
from aawm.viz.player import EVENT_WORDS, draw_stage


def wandering(seed=0, pace=0.06):
    "A made-up trial in which things wander, now and then near each other and the goal."
    draw = np.random.default_rng(seed)
    states = np.zeros((STEPS, 5, 7))
    states[..., [0, 2]] = (draw.uniform(-3, 3, (5, 2)) + draw.normal(0, pace, (STEPS, 5, 2)).cumsum(0) - [0, 1.5])
    states[..., 1] = np.abs(draw.normal(0, 0.002, (STEPS, 5)).cumsum(0))
    states[:, 0, [0, 2]] = states[:, 3, [0, 2]] + 0.3
    states[..., -1] = 1
    return states


@pytest.fixture(scope="module")
def replay():
    truth = wandering(10)
    return arena_replay(truth, {"rssm_discrete": wandering(2)[80:], "oracle": truth[80:]}, 80, "wandering <b>", privileged=("oracle",))


@pytest.fixture(scope="module")
def place(tmp_path_factory, arena_store):
    "A store of trials, and a run of two steps."
    folder = tmp_path_factory.mktemp("watched place")
    (folder / "trials").symlink_to(arena_store)
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


def test_a_rollout_is_marked_by_what_truly_happens(replay):
    truth, learned, knowing = ([mark for *_, mark, _ in stage["events"]] for stage in replay.stages)
    assert truth == [None] * 3 and knowing == ["right"] * 2 and replay.stages[2]["name"].endswith("†"), "the privileged model is marked"
    assert sorted(learned) == ["right", "wrong"], "one delivery of two is foreseen"
    truth = wandering()
    broken = np.where(np.arange(220)[:, None, None] == 100, np.inf, truth[80:])
    for name, rollout in {"wild": broken, "short": truth[80:-1]}.items():
        stage = arena_replay(truth, {name: rollout}, 80).stages[1]
        assert any("not finite" in words for _, words, *_ in stage["events"])
        draw_stage(stage, 299, 50)


def test_what_is_imagined_has_rings_of_the_truth_and_what_is_shown_has_none(replay):
    truth, imagined = (stage["shapes"] for stage in replay.stages[:2])
    assert len(imagined) == len(truth) + 3 and imagined[-1]["hidden"] and imagined[-1]["changes"] == [[80, {"hidden": False}]]
    apart = [(np.asarray(draw_stage(stage, 79, 90)) != np.asarray(draw_stage(replay.stages[0], 79, 90))).any() for stage in replay.stages]
    assert apart == [False] * 3, "all is the same until the context ends"
    assert (np.asarray(draw_stage(replay.stages[1], 80, 90)) != np.asarray(draw_stage(replay.stages[0], 80, 90))).any()


def test_a_notebook_keeps_stills_and_a_person_gets_the_page(replay, monkeypatch):
    for name in ("JPY_SESSION_NAME", "VSCODE_PID", "VSCODE_CWD"):
        monkeypatch.delenv(name, raising=False)
    data, more = replay._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"} and more["image/png"]["alt"].startswith("wandering <b>, 300 steps; What happened")
    monkeypatch.setenv("JPY_SESSION_NAME", "page.ipynb")
    assert "<iframe srcdoc=" in replay._repr_mimebundle_()[0]["text/html"]


def test_a_trial_of_a_store_is_rolled_out_as_in_an_evaluation(place):
    seen = []

    def spy(states, context, horizon, generator=None, mode=False, privileged=None):
        seen.append(states.clone())
        return states[:, :1].expand(-1, horizon, -1)

    replay = play.replay_trial(place / "trials", 3, [place / "run", spy], context=60)
    assert len(replay.stages) == 3 and replay.context == 60
    assert seen[0][0, 60:].isnan().all() and seen[0][0, :60].isfinite().all(), "the future is hidden"


def test_play_writes_a_page_or_an_animation(place, tmp_path, capsys):
    words = ["play", str(place / "trials"), "--trial", "2", "--run", str(place / "run"), "--run", "frozen_world", "--context", "40"]
    for name in ("trial.html", "trial.gif", "trial.ipynb"):
        with pytest.raises(SystemExit) as end:
            cli.main([*words, "--save", str(tmp_path / name)])
        assert bool(end.value.code) == (name == "trial.ipynb")
    said = capsys.readouterr()
    assert said.out.count("written") == 2 and "is written as .html or .gif" in said.err


def test_the_page_plays_in_a_browser(browser, replay, tmp_path):
    page = browser.new_page(viewport={"width": 900, "height": 700})
    outside: list = []
    faults: list = []
    note_requests(page, outside, "file:")
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.goto(replay.save(tmp_path / "trial.html").as_uri())
    assert page.locator("h1").inner_text() == "wandering <b>" and page.locator("button").first.inner_text() == "Pause"
    slider = page.locator("input[type=range]")
    page.wait_for_function("Number(document.querySelector('input').value) > 60", timeout=60_000)
    page.locator("button").first.click()
    stopped = int(slider.input_value())
    page.wait_for_timeout(300)
    assert int(slider.input_value()) == stopped and page.locator("button").first.inner_text() == "Play"
    pictures = []
    for step in (79, 200):
        slider.fill(str(step))
        page.wait_for_function(f"document.querySelector('output').textContent.includes('step {step} of 299')")
        pictures.append(page.locator("figure canvas").nth(1).screenshot())
        assert page.locator("figure").nth(1).inner_text().split("\n")[0] == f"RSSM Discrete {'shown' if step < 80 else 'imagined'}"
    assert pictures[0] != pictures[1]
    slider.fill("0")
    page.locator("text=event ▸").click()
    steps = {step for stage in replay.stages for step, *_ in stage["events"] if step} | {80}
    page.wait_for_function(f"Number(document.querySelector('input').value) === {min(steps)}")
    assert page.locator("li.wrong").count() == sum(mark == "wrong" for stage in replay.stages for *_, mark, _ in stage["events"])
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") and not outside and not faults
    page.close()


def test_an_embedded_player_is_as_tall_as_it_is(browser, replay, tmp_path):
    replay.save(tmp_path / "trial.html")
    (tmp_path / "outer.html").write_text(f"<iframe srcdoc='{replay.page().replace(chr(39), '&#39;')}' width='100%' height='300'></iframe>")
    for wide in (400, 1100):
        page = browser.new_page(viewport={"width": wide, "height": 700})
        page.goto((tmp_path / "outer.html").as_uri())
        inner = "document.querySelector('iframe').contentDocument.documentElement"
        page.wait_for_function(f"{inner} && document.querySelector('iframe').clientHeight >= {inner}.offsetHeight")
        assert page.evaluate(f"{inner}.scrollHeight <= document.querySelector('iframe').clientHeight")
        page.close()
