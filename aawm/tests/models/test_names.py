"""Weights by name, models of one's own under plain names, code that is named again, and weights files that say how they came about."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from aawm import cli
from aawm.data import generate
from aawm.errors import UsageError
from aawm.evaluation import Protocol
from aawm.evaluation.results import take_model
from aawm.models import WorldModel, build, load_weights, pretrained
from aawm.models.base import choose_device
from aawm.on_demand import NAMED
from aawm.models.weights import ship_weights
from aawm.runs.manifest import plan, profile_values
from aawm.training import fit, load_run, run_settings

GLIDE = """import torch
from aawm.models import WorldModel


class Glide(WorldModel):
    def __init__(self, config=None, variant="corrected"):
        super().__init__(config, variant)
        self.weight = torch.nn.Parameter(torch.ones(()))

    def loss(self, batch):
        return self.weight.square(), {}

    def imagine(self, states, lengths, horizon, *more):
        return self.weight * states[:, -1:].expand(-1, horizon, -1)
"""
BRIEF = {"steps": 2, "batch": 4, "validate_every": 2, "log_every": 2, "validation_windows": 8}
TRAINED = ("started_from", "lengthened", "training", "data_hash", "versions")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("names") / "trials", 20, workers=1, fidelity="planar", progress=False)


@pytest.fixture
def here(tmp_path, monkeypatch):
    "A folder with a model of one's own."
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("glide.py").write_text(GLIDE)
    yield tmp_path
    sys.modules.pop("glide", None)


def program(capsys, words: str) -> tuple[int, str]:
    "Exit code and what is said, as in a fresh process: code that another call named is not trusted."
    NAMED.clear()
    for module in ("glide", "other"):
        sys.modules.pop(module, None)
    with pytest.raises(SystemExit) as end:
        cli.main(words.split())
    said = capsys.readouterr()
    return int(end.value.code or 0), said.out + said.err


@pytest.mark.parametrize("name, seed", [("multistep_delta", 0), ("multistep_delta@1", 1)])
def test_a_registered_name_means_the_weights_that_ship(here, store, capsys, name, seed):
    assert load_weights(name).card == pretrained("multistep_delta", seed).card
    assert take_model(name)[1] == seed
    brief = "--preset smoke --steps 1 --batch 4 --set validation_windows=4 --no-progress"
    code, said = program(capsys, f"train multistep_delta {store} tuned --from {name} {brief}")
    assert code == 0 and load_run("tuned").config == pretrained("multistep_delta", seed).config, said
    assert run_settings("tuned")["started_from"]["file"] == f"multistep_delta-corrected-{seed}.safetensors"


def test_names_are_taken_where_models_are(here, store, capsys):
    for words in (
        f"evaluate multistep_delta@1 {store} out --split all --tasks move --no-progress",
        f"play {store} --run multistep_delta@1 --no-open",
    ):
        code, said = program(capsys, words)
        assert code == 0, said


def test_what_lies_there_goes_before_what_ships(here, store):
    fit("oracle", store, "oracle", training_settings=BRIEF, seed=7, device="cpu", progress=False)
    assert take_model("oracle")[1] == 7 and take_model("oracle@0")[1] == 0


@pytest.mark.parametrize("name", ["glide:Glide", "glide.py:Glide"])
def test_a_run_of_ones_own_code_is_opened_where_that_code_is_named_again(here, store, capsys, name):
    train = f"train {name} {store} run --preset smoke --steps 1 --batch 4 --set validation_windows=4 --no-progress"
    evaluate_ = f"evaluate run {store} out --split all --tasks move --replace --no-progress"
    assert program(capsys, train)[0] == 0
    Path("other.py").write_text(GLIDE)
    for words in (evaluate_, f"{evaluate_} --code other.py"):
        code, said = program(capsys, words)
        assert code == 7 and "--code glide" in said, said
    for named in ("glide.py", "glide"):
        code, said = program(capsys, f"{evaluate_} --code {named}")
        assert code == 0, said
    code, said = program(capsys, f"play {store} --run run --save page.html --code glide.py")
    assert code == 0 and Path("page.html").stat().st_size > 1000, said


def test_a_model_of_ones_own_has_plain_file_names_and_its_weights_ship(here, store, capsys):
    fit("glide:Glide", store, "run", training_settings=BRIEF, device="cpu", progress=False)
    code, said = program(capsys, "export-weights run weights --code glide.py")
    assert code == 0 and {path.name for path in Path("weights").glob("[!.]*")} == {"glide.Glide-0.safetensors", "glide.Glide-0.json"}, said
    code, said = program(capsys, f"evaluate weights/glide.Glide-0.safetensors {store} out --split all --tasks move --no-progress --code glide.py")
    assert code == 0, said
    jobs = plan(profile_values("smoke", {"models": ["glide:Glide", "oracle"]}))
    written = [Path(place).name for job in jobs for place in job.outputs] + [job.file_name for job in jobs]
    assert "glide.Glide-0.safetensors" in written and not any(set(name) & set('<>:"|?*/\\') for name in written)


def test_saved_weights_say_how_they_came_about_until_they_change(here, store):
    name = "multistep_predictor"
    start = fit(name, store, "start", training_settings=BRIEF, device="cpu", progress=False)
    for steps in (2, 4):
        run = fit(
            name, store, "run", training_settings=BRIEF | {"steps": steps}, device="cpu", progress=False, start=start,
            longer=True
        )
    model = load_run(run)
    card = load_weights(ship_weights(model, "saved.safetensors")).card
    assert {field: card[field] for field in TRAINED} == {field: run_settings(run)[field] for field in TRAINED}
    with torch.no_grad():
        next(model.parameters()).add_(1)
    assert not set(TRAINED) & set(load_weights(ship_weights(model, "changed.safetensors")).card)


def test_calls_that_people_type(here, store):
    import glide

    assert run_settings(fit(glide.Glide, store, "own", training_settings=BRIEF, device="cpu", progress=False))["model"] == "glide:Glide"
    oracle = type(build("oracle"))
    assert run_settings(fit(oracle, store, "known", training_settings=BRIEF, device="cpu", progress=False))["model"] == "oracle"
    assert build("sgnet").rollout(torch.zeros(1, 60, 35), np.int64(50), np.int64(5)).shape == (1, 5, 35)
    assert pretrained("sgnet@1").card["seed"] == 1
    states = torch.zeros(1, 60, 35)
    for call, line in {
        lambda: fit(glide.Glide(), store, "new"): "a name, module:Class or a class",
        lambda: fit(type("Here", (WorldModel,), {"__module__": "__main__"}), store, "new"): "write it into a file, here.py",
        lambda: choose_device("mps"): "use auto, cpu or cuda",
        lambda: Protocol(split="test"): "None for every trial",
        lambda: build("sgnet").rollout(states, 50, 5.0): "whole number",
    }.items():
        with pytest.raises(UsageError, match=line):
            call()
    assert not Path("new").exists()
