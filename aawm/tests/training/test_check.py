"Models are tried as research scripts are: with tied weights, hidden state, tensors left on the CPU, prints and arguments of their own."

import re
import sys

import pytest
import torch
from safetensors.torch import load_file

from aawm.cli import warn_of_contract
from aawm.errors import ModelContractError
from aawm.models import build
from aawm.training import check, fit, preset_settings
from aawm.training.check import check_model
from aawm.training import load_run

MODEL = '''"""A model of a stranger."""
import torch
from aawm.errors import UsageError
from aawm.models import WorldModel


class Leaky(WorldModel):
    "Looks at a hidden step."

    def loss(self, batch):
        return batch["states"].square().mean(), {}

    def rollout(self, states, context, horizon, generator=None, mode=False, privileged=None):
        lengths = torch.as_tensor(context, device=states.device).expand(len(states))
        if not (1 <= int(lengths.min()) and int(lengths.max()) < states.shape[1] and horizon >= 1):
            raise UsageError("bad call")
        now = states[torch.arange(len(states), device=states.device), lengths - 1]
        return (now + 0.5 * torch.nan_to_num(states[:, -1]))[:, None].repeat(1, horizon, 1)


class SameMemory(Leaky):
    "The same, always in the same memory."

    def rollout(self, *given, **named):
        future = super().rollout(*given, **named)
        kept = self.__dict__.setdefault("kept", {})
        return kept.setdefault((future.shape, future.device), torch.empty_like(future)).copy_(future)


class Undeclared(Leaky):
    def loss(self, batch):
        return batch["end_state"].square().mean(), {}


class Behind(WorldModel):
    "Makes a tensor and does not say where."

    def imagine(self, states, lengths, horizon, generator=None, mode=False, privileged=None):
        return (states[:, :1] + torch.zeros(states.shape[-1])).expand(-1, horizon, -1)
'''


@pytest.fixture(scope="module")
def store(other_store):
    return other_store


@pytest.fixture
def model_file(tmp_path, request):
    path = tmp_path / f"strange_{request.node.name.split('[')[0][-30:]}.py"
    yield lambda text: path.write_text(text) and path
    sys.modules.pop(path.stem, None)


def test_the_same_memory_at_each_call_hides_no_leak(model_file):
    path = model_file(MODEL)
    fresh, same = (check_model(f"{path}:{name}") for name in ("Leaky", "SameMemory"))
    assert "hidden steps unused" in fresh.failed and fresh.failed == same.failed


def test_a_model_that_was_checked_elsewhere_comes_back(monkeypatch):
    monkeypatch.setattr(check, "CHECKS", {})
    model = build("transformer", **preset_settings("smoke", "transformer")[0])
    places = []
    monkeypatch.setattr(model, "to", lambda place: places.append(str(place)) or model)
    monkeypatch.setattr(check, "choose_device", torch.device)
    check_model(model, device="meta")
    assert places == ["meta", "cpu"]


def test_the_loss_is_given_what_a_model_declares_and_no_more(model_file):
    assert "loss" in check_model(f"{model_file(MODEL)}:Undeclared").failed


def test_a_tensor_left_on_the_cpu_is_found_without_a_gpu(model_file):
    path = model_file(MODEL)
    report = check_model(f"{path}:Behind")
    lines = {name: (outcome, wrong) for name, outcome, wrong in report.lines}
    outcome, wrong = lines["another device"]
    assert outcome == "warning" and "on a GPU its rollout fails" in wrong and path.name in wrong
    assert lines["loss"] == ("skipped", "not trained here")
    if not torch.cuda.is_available():
        assert lines["CPU and GPU agree"] == ("warning", "not tried: there is no GPU here")


STATES = '''import torch
from torch import nn
from aawm.models.multistep import MultistepDelta


class Tied(MultistepDelta):
    def __init__(self, config=None, variant="corrected"):
        super().__init__(config, variant)
        self.first, self.second = nn.Linear(35, 35), nn.Linear(35, 35)
        self.second.weight = self.first.weight


class BufferView(Tied):
    def __init__(self, config=None, variant="corrected"):
        super().__init__(config, variant)
        self.register_buffer("rows", self.first.weight.data[:4])
        self.third = torch.compile(nn.Linear(2, 2), backend="eager")


class Lazy(Tied):
    def __init__(self, config=None, variant="corrected"):
        super().__init__(config, variant)
        self.third = nn.LazyLinear(35)


class Extra(Tied):
    def get_extra_state(self):
        return {"seen": 3}


class Grown(Tied):
    def loss(self, batch):
        self.register_buffer("seen", torch.zeros(3))
        return super().loss(batch)


class Hidden(Tied):
    learnt = 0.0

    def loss(self, batch):
        self.learnt = 1.0
        return super().loss(batch)

    def rollout(self, *given, **named):
        return super().rollout(*given, **named) + self.learnt
'''
BUFFERS = {"Mask": "full((3, 3), -torch.inf).triu(1)", "Expanded": "zeros(1).expand(5)", "Sparse": "eye(3).to_sparse()"}
for name, value in BUFFERS.items():
    STATES += f"""

class {name}(Tied):
    def __init__(self, config=None, variant="corrected"):
        super().__init__(config, variant)
        self.register_buffer("rows", torch.{value})
"""


BRIEF = {"steps": 2, "batch": 4, "validate_every": 2, "validation_windows": 4, "log_every": 1}


@pytest.mark.parametrize("name", ["Tied", "BufferView", "Mask"])
def test_a_state_that_shares_memory_is_written_once_and_read(model_file, store, tmp_path, name):
    path = model_file(STATES)
    assert "state" not in check_model(f"{path}:{name}").failed
    run = fit(f"{path}:{name}", store, tmp_path / "run", training_settings=BRIEF, device="cpu", progress=False)
    written = load_file(run / "weights.safetensors")
    assert "first.weight" in written and "second.weight" not in written
    model = load_run(run)
    assert model.second.weight is model.first.weight


@pytest.mark.parametrize("name, said", [
    ("Lazy", "has no size yet"), ("Hidden", "rolls out .* elsewhere"), *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        ("Extra", "a dict"), ("Expanded", "loading state_dict"), ("Sparse", "storage of Sparse"), ("Grown", "seen unknown")
    ))
])
def test_a_state_that_is_lost_is_found_before_any_training(model_file, store, tmp_path, name, said):
    path = model_file(STATES)
    report = check_model(f"{path}:{name}")
    assert "state" in report.failed and re.search(said, str(report))
    with pytest.raises(ModelContractError, match=said):
        warn_of_contract(f"{path}:{name}", "corrected", {})
    if name not in ("Hidden", "Grown"):  # which a step alone shows
        with pytest.raises(ModelContractError, match=said):
            fit(f"{path}:{name}", store, tmp_path / "run", training_settings=BRIEF, device="cpu", progress=False)
        assert not (tmp_path / "run" / "settings.json").exists()
