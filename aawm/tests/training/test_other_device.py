"Models are tried on a device that no machine needs to have, and as research scripts are: with buffers, prints and arguments of their own."

import subprocess
import sys

import pytest
import torch

from aawm.errors import ModelContractError
from aawm.models import build
from aawm.training import check, preset_settings
from aawm.training.check import Subject, check_model, check_other_device, wandering
from aawm.training.other_device import OTHER_DEVICE, DeviceMix, Elsewhere, OtherDevice, moved_there

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


class Behind(WorldModel):
    "Makes a tensor and does not say where."

    def imagine(self, states, lengths, horizon, generator=None, mode=False, privileged=None):
        return (states[:, :1] + torch.zeros(states.shape[-1])).expand(-1, horizon, -1)
'''


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
    check_model(model, device="meta")
    assert places == ["meta", "cpu"]


def test_the_loss_is_given_what_a_model_declares_and_no_more(model_file):
    path = model_file(MODEL + """

class Undeclared(Leaky):
    "Reads the trial's end without saying so."

    def loss(self, batch):
        return batch["end_state"].square().mean(), {}
""")
    assert "loss" in check_model(f"{path}:Undeclared").failed


def test_a_tensor_left_on_the_cpu_is_found_without_a_gpu(model_file):
    path = model_file(MODEL)
    report = check_model(f"{path}:Behind")
    lines = {name: (outcome, wrong) for name, outcome, wrong in report.lines}
    outcome, wrong = lines["another device"]
    assert outcome == "warning" and "CPU tensor of shape [35]" in wrong and path.name in wrong
    assert lines["loss"] == ("skipped", "not trained here")


@pytest.mark.parametrize("name", ["rssm_discrete", "multistep_predictor", "transformer", "event_transformer"])
def test_values_and_gradients_are_the_same_there(name):
    settings, training = preset_settings("smoke", name)
    torch.manual_seed(0)
    model = build(name, **settings)
    states = wandering(3, 0)
    lengths = torch.tensor([50, 3, 120])
    model.calibrate(states)
    expected = model.eval().rollout(states, lengths, 4, mode=True)
    with OtherDevice():
        moved = moved_there(model)
        there = states.to(OTHER_DEVICE)
        moved.loss(
            {
                "states": there[:, : training.window].clone(), "end_state": there[:, -1],
                "context": training.context
            }
        )[0].backward()
        future = moved.eval().rollout(there, lengths.to(OTHER_DEVICE), 4, mode=True)
    assert torch.equal(future.kept, expected)
    gradients = [weights.grad for weights in moved.parameters() if weights.grad is not None]
    assert gradients and all(isinstance(gradient, Elsewhere) for gradient in gradients)
    assert not any(
        isinstance(weights, Elsewhere) for weights in model.parameters()
    ), "the model itself stays where it was"


def test_what_a_gpu_refuses_is_refused():
    with OtherDevice():
        there = torch.randn(3, 4).to(OTHER_DEVICE)
        assert torch.equal(
            (there + torch.tensor(1.0)).cpu(), there.cpu() + 1
        ) and there[torch.tensor([0, 2])].shape == (2, 4)
        assert torch.tensor(
            [1.0], device=there.device
        ).device == OTHER_DEVICE and there.tolist() == there.cpu().tolist()
        for mixed in (
            lambda: there + torch.zeros(4), lambda: there @ torch.zeros(4, 2),
            lambda: torch.cat([there, torch.zeros(1, 4)]), there.numpy
        ):
            with pytest.raises(DeviceMix):
                mixed()


@pytest.mark.parametrize("name", ["oracle", "sgnet"])
def test_models_of_the_package_are_tried_there(name):
    assert check_other_device(Subject(build(name, **preset_settings("smoke", name)[0]), 0)) == ""


@pytest.mark.parametrize(
    "line, word",
    [
        ("import argparse\nargparse.ArgumentParser().parse_args()", "parses arguments"),
        ("raise SystemExit(3)", "exits"),
    ],
)
def test_a_file_that_runs_where_it_is_imported_gets_one_line(model_file, line, word):
    path = model_file(MODEL + "\n\n" + line + "\n")
    with pytest.raises(ModelContractError, match=f"{path.name} {word} where it is imported"):
        check_model(f"{path}:Leaky")
    found = subprocess.run(
        [sys.executable, "-m", "aawm.cli", "check-model", f"{path}:Leaky"], capture_output=True, text=True
    )
    assert found.returncode == 4 and len(
        found.stderr.splitlines()
    ) == 1 and word in found.stderr and not found.stdout


def test_prints_where_a_file_is_imported_are_one_warning(model_file, capsys):
    path = model_file('print("settings of my run")\n' * 3 + MODEL)
    with pytest.warns(UserWarning, match="prints where it is imported"):
        build(f"{path}:Leaky")
    assert not capsys.readouterr().out
