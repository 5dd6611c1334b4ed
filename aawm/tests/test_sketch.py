"""Pictures of trials: small, whole, and marked where events happen."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from aawm.data.trials import show_trial, trial_panel
from aawm.errors import UsageError
from aawm.events import event_panel
from aawm.sim import simulate
from aawm.sketch import LONGEST_BAR, Sketch, bars, side_by_side


@pytest.fixture(scope="module")
def raw():
    return simulate("multistep_static", seed=0, fidelity="planar")


def words_in(svg: str) -> list:
    "The words that a picture shows under the mouse."
    return [node.text for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]


def test_a_raw_trial_draws_its_logged_events_and_where_things_end(raw):
    svg = raw._repr_svg_()
    words = words_in(svg)
    assert len(svg.encode()) < 10_000 and "RawTrial" in repr(raw)
    assert set(raw.object_kinds) | set(raw.roles) <= set(words)
    for event, word in (("pickup", "picked up"), ("goal", "delivered")):
        logged = {raw.object_kinds[k] for k in range(3) if (raw.events.event == f"{event}_{k}").any()}
        assert {text.split(f" {word}")[0] for text in words if word in text} == logged and logged


def test_a_rollout_is_solid_up_to_its_context_and_dashed_after(raw):
    svg = side_by_side(event_panel(raw.steps, "true"), event_panel(raw.steps, "imagined", context=30)).svg
    true, imagined = ElementTree.fromstring(svg).findall("{http://www.w3.org/2000/svg}svg")
    dashes = [
        [node.get("stroke-dasharray") for node in panel.iter() if node.tag.endswith("path")]
        for panel in (true, imagined)
    ]
    assert not any(dashes[0]) and any(dashes[1]) and "dashed: imagined" in svg


def test_what_cannot_be_drawn_is_refused(raw):
    for states in (np.zeros((300, 34)), np.zeros((0, 5, 7)), np.zeros((2, 300, 5, 7))):
        with pytest.raises(UsageError, match="one trial"):
            Sketch(states)
    with pytest.raises(UsageError, match="one to six"):
        side_by_side(*[raw.panel()] * 7)


def test_a_stored_trial_is_drawn_by_its_place(raw):
    import xarray

    names = np.array([raw.object_kinds])
    trials = xarray.Dataset(
        {"state": (("trial", "step", "entity", "feature"), raw.steps[None]), "object_kind": (("trial", "object"), names)}
        | {f"{event}_step": (("trial", "object"), [steps]) for event, steps in (("pickup", raw.panel().pickup_step), ("goal", raw.panel().goal_step))}
        | {name: ("trial", [value]) for name, value in (("scenario", raw.scenario), ("role_agent0", raw.roles[0]), ("role_agent1", raw.roles[1]))}
    )
    assert set(words_in(show_trial(trials, 0).svg)) == set(words_in(raw._repr_svg_()))
    with pytest.raises(UsageError, match="trials 0 to 0"):
        trial_panel(trials, 1)


def test_an_interval_is_a_line_across_the_end_of_its_bar():
    values = {"up": 0.5, "<down>": -0.5, "sure": 0.5}
    svg = ElementTree.fromstring(bars(values, "title", {"up": (0.25, 1.0), "<down>": (-1.0, 0.0)}).svg)
    lines = [re.match(r"M(\d+) \d+H(\d+)$", each.get("d")).groups() for each in svg if each.tag.endswith("path")]
    (up_low, up_high), (down_low, down_high) = (map(int, ends) for ends in lines)
    assert up_low < down_low + LONGEST_BAR * 3 / 4 < up_high, "the bar of 0.5 ends between"
    assert up_high - down_low == LONGEST_BAR and down_high - down_low == LONGEST_BAR / 2
