"""What `help` and Shift-Tab show: each parameter and field of the public face with its words, whichever way it is imported."""

import inspect
import sys

import pytest

import aawm
import aawm.data
import aawm.evaluation
import aawm.events
import aawm.infant
import aawm.lessons
import aawm.marple
import aawm.models
import aawm.runs
import aawm.sim
import aawm.study
import aawm.training
import aawm.viz
from aawm.models import Context
from aawm.training.settings import LoopSettings, TrainingSettings
from aawm.viz.figures import fig3

ROOMS = (
    aawm, aawm.data, aawm.events, aawm.sim, aawm.models, aawm.training, aawm.evaluation, aawm.viz, aawm.runs,
    aawm.infant, aawm.marple, aawm.study, aawm.lessons,
)


def said_of(thing) -> dict:
    "Parameter -> its words, as the docstring has them."
    lines = (inspect.getdoc(thing) or "").splitlines()
    heads = {k: line.partition(" : ")[0] for k, line in enumerate(lines) if line and not line.startswith(" ")}
    return {name: " ".join(lines[k + 1 : k + 2]).strip() for k, name in heads.items()}


def makes_itself(kind: type) -> bool:
    "Does a class say itself what it is made of?"
    return "__init__" in vars(kind) and "__signature__" not in vars(kind)


def offered(room) -> list:
    things = [getattr(room, name) for name in room.__all__]
    ours = [thing for thing in things if str(getattr(thing, "__module__", "")).startswith("aawm.")]
    return [thing for thing in ours if inspect.isfunction(thing) or isinstance(thing, type) and makes_itself(thing)]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_help_names_each_parameter(room):
    for thing in offered(room):
        asked = [name for name in inspect.signature(thing).parameters if name not in ("self", "cls")]
        assert set(asked) <= set(said_of(thing)), f"{thing.__qualname__}: {inspect.getdoc(thing)}"


def test_help_says_what_parameters_are():
    silent = [
        f"{thing.__module__}.{thing.__qualname__}: {name}"
        for room in ROOMS
        for thing in offered(room)
        for name, words in said_of(thing).items()
        if name in inspect.signature(thing).parameters and not words
    ]
    whole = sum(len(inspect.signature(thing).parameters) for room in ROOMS for thing in offered(room))
    top = [f"{thing.__module__}.{thing.__qualname__}:" for thing in offered(aawm)]
    assert not [line for line in silent if line.startswith(tuple(top)) and not line.endswith((" progress", " seed"))]
    assert len(silent) < whole / 5, silent  # what is left has a name and a type that say it


def test_fields_methods_and_what_is_inherited_are_said():
    assert "zero where hidden" in said_of(Context)["states"] and said_of(fig3)["panels"]
    assert "steps to predict" in said_of(aawm.models.WorldModel.rollout)["horizon"]
    assert set(inspect.signature(LoopSettings).parameters) < set(said_of(TrainingSettings))
    assert said_of(TrainingSettings)["clip"] == "largest norm of the gradient; 0 leaves it as it is"
    assert "share of the learning rate" in said_of(TrainingSettings)["weight_decay"], "words above a field count, too"


def test_help_of_the_program_stays_short():
    from aawm import cli

    assert "Parameters" not in cli.evaluate.__doc__ and "aawm.cli" in sys.modules
