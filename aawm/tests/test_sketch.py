"""Pictures of trials: small, whole, and marked where events happen."""

from xml.etree import ElementTree

import numpy as np
import pytest

from aawm.errors import UsageError
from aawm.sim import simulate
from aawm.sketch import Sketch, side_by_side


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


def test_what_cannot_be_drawn_is_refused(raw):
    for states in (np.zeros((300, 34)), np.zeros((0, 5, 7)), np.zeros((2, 300, 5, 7))):
        with pytest.raises(UsageError, match="one trial"):
            Sketch(states)
    with pytest.raises(UsageError, match="one to six"):
        side_by_side(*[raw.panel()] * 7)
