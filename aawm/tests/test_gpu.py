"""On a GPU: the CPU's losses and rollouts, seeds that repeat, bounded memory. Anywhere: no training step waits for the device."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from aawm.data.windows import Windows
from aawm.models import MODELS, build, variants_of
from aawm.models.streams import Streams
from aawm.training import preset_settings
from aawm.training.check import wandering
from aawm.training.loop import training_step
from aawm.training.other_device import OTHER_DEVICE, Elsewhere, OtherDevice, moved_there
from aawm.training.run import as_it_was

CASES = [(name, variant) for name in MODELS for variant in variants_of(name)]
NAMES = [name if variant == "corrected" else f"{name} {variant}" for name, variant in CASES]
DEVICE = "cuda"
GB = 2**30


def on_gpu(test):
    "Marked `gpu`, and skipped where there is none."
    return pytest.mark.gpu(pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")(test))


@pytest.fixture
def same_noise(monkeypatch):
    "Noise from the CPU's generator on every device, and products in full precision."
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    for name in ("rand", "randn"):
        plain = getattr(torch, name)
        monkeypatch.setattr(
            torch, name,
            lambda *size, device=None, generator=None, plain=plain, **more: plain(
                *size, **more
            ).to(device or "cpu")
        )


def case(name, preset="smoke", device="cpu", trials=6):
    "A model with random weights, calibrated, and a batch."
    name, variant = CASES[NAMES.index(name)]
    settings, training = preset_settings(preset, name, variant)
    torch.manual_seed(0)
    model = build(name, variant, **settings)
    states = wandering(trials, 0)
    model.calibrate(states)
    batch = {
        "states": states[:, : training.window].to(device), "end_state": states[:, -1].to(device),
        "context": training.context
    }
    return model.to(device), batch, training


def rolled_out(model, states, steps=10, seed=None, mode=True):
    generator = None if seed is None else torch.Generator(states.device).manual_seed(seed)
    told = {"end_state": states[:, -1]} if model.privileged else None
    lengths = torch.tensor([50, 3, 120, 77, 299, 1], device=states.device)[: len(states)]
    return model.rollout(states, lengths, steps, generator=generator, mode=mode, privileged=told)


@on_gpu
@pytest.mark.parametrize("name", NAMES)
def test_losses_and_gradients_are_those_of_the_cpu(name, same_noise):
    found = []
    for device in ("cpu", DEVICE):
        model, batch, _ = case(name, device=device)
        model.eval()
        torch.manual_seed(1)
        # its recurrent layers have no gradient in eval mode
        with torch.backends.cudnn.flags(enabled=device == "cpu"):
            loss = model.loss(batch)[0]
            loss.backward()
        found.append(
            (
                float(loss.detach()),
                math.sqrt(
                    sum(
                        float(part.grad.square().sum())
                        for part in model.parameters()
                        if part.grad is not None
                    )
                )
            )
        )
    assert found[1] == pytest.approx(found[0], rel=1e-3)


@on_gpu
@pytest.mark.parametrize("name", NAMES)
def test_rollouts_are_those_of_the_cpu(name, same_noise):
    cpu, gpu = (
        rolled_out(case(name, device=device)[0], wandering(6, 1, device)).cpu() for device in ("cpu", DEVICE)
    )
    assert float((cpu - gpu).abs().max()) < 1e-2


@on_gpu
@pytest.mark.parametrize("name", NAMES)
def test_seeds_repeat(name):
    model, batch, training = case(name, device=DEVICE)
    states = wandering(6, 1, DEVICE)
    assert torch.equal(*(rolled_out(model, states, seed=3, mode=False) for _ in range(2)))
    losses = []
    for _ in range(2):
        model, batch, training = case(name, device=DEVICE)
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
        losses.append(
            [float(training_step(model.train(), optimizer, batch, step, 0, training)) for step in range(3)]
        )
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)  # sums of gradients are in no fixed order


@on_gpu
@pytest.mark.parametrize("name", NAMES)
def test_a_step_of_the_gpu_preset_and_many_rollouts_fit_into_memory(name):
    _, training = preset_settings("gpu", name)
    torch.cuda.reset_peak_memory_stats()
    model, batch, training = case(name, "gpu", DEVICE, trials=training.batch)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    training_step(model.train(), optimizer, batch, 0, 0, training)
    states = wandering(1222, 2, DEVICE)
    told = {"end_state": states[:, -1]} if model.privileged else None
    assert model.rollout(states, 100, 50, privileged=told).isfinite().all()
    assert torch.cuda.max_memory_allocated() < 12 * GB


class Waits(TorchDispatchMode):
    "Notes operations for whose result Python has to wait."

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, operation, types, given=(), named=None):
        name = operation.overloadpacket.__name__
        masks = name.startswith(("index", "_index")) and any(
            part is not None and part.dtype == torch.bool for part in given[1] if torch.is_tensor(part)
        )
        if masks or name in (
            "_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero"
        ):
            self.found.append(name)
        return operation(*given, **(named or {}))


# which objects move in a batch: two masks, `nonzero` twice
SIZES_DEPEND_ON_DATA = {"event_transformer": 4, "strong_oracle": 4, "event_transformer_generic": 4}


@pytest.mark.parametrize("name", NAMES)
def test_no_training_step_waits_for_the_device(name):
    model, _, training = case(name)
    windows = Windows(wandering(8, 0), window=training.window, batch=4, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    windows.batch(0)  # an epoch's order is made on the CPU, once
    with Waits() as waits:
        batch = {**windows.batch(1), "context": training.context}
        training_step(model.train(), optimizer, batch, 1, 0, training)
    assert len(waits.found) <= SIZES_DEPEND_ON_DATA.get(name, 0), waits.found


def test_waits_are_noticed():
    value = torch.ones(2)
    with Waits() as waits:
        bool(value[0] > 0), float(value.sum()), value[value > 0], value.nonzero()
    assert len(waits.found) >= 4


@pytest.mark.parametrize("name", NAMES)
def test_no_model_makes_anything_on_the_cpu(name, monkeypatch):
    "Without a GPU: loss in training and evaluation, its gradient, and rollouts of equal and mixed contexts, on a make-believe device."
    # there is no generator of that device
    monkeypatch.setattr(Streams, "__new__", lambda kind, keys: torch.Generator.__new__(kind))
    model, batch, _ = case(name, trials=3)
    batch = (
        {key: value[:, :24] if key == "states" else value for key, value in batch.items()} | {"context": 6}
    )
    lengths = torch.tensor([6, 3, 8])
    with OtherDevice():
        there = moved_there(model)
        states = wandering(3, 0)[:, :30].to(OTHER_DEVICE)
        moved = {
            key: value.to(OTHER_DEVICE) if torch.is_tensor(value) else value for key, value in batch.items()
        }
        for learning in (True, False):
            loss = there.train(learning).loss(moved)[0]
            assert isinstance(loss, Elsewhere)
        loss.backward()
        privileged = {"end_state": states[:, -1]} if there.privileged else None
        for context in (6, lengths.to(OTHER_DEVICE)):
            for mode in (True, False):
                assert isinstance(
                    there.rollout(states, context, 3, mode=mode, privileged=privileged), Elsewhere
                )
    gradients = [weights.grad for weights in there.parameters() if weights.grad is not None]
    assert gradients and all(isinstance(gradient, Elsewhere) for gradient in gradients)


def test_tf32_is_on_for_the_preset_gpu_and_off_afterwards():
    precisions = {name: preset_settings("gpu", name)[1].precision for name in MODELS}
    assert precisions.pop("transformer") == "bf16-mixed" and set(precisions.values()) == {"tf32"}
    before = torch.backends.cuda.matmul.allow_tf32
    with as_it_was(1, "tf32"):
        assert torch.backends.cuda.matmul.allow_tf32
    with as_it_was(1):
        assert not torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == before
