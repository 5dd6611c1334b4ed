"""On a GPU: the CPU's losses and rollouts, seeds that repeat, bounded memory. Anywhere: no training step waits for the device."""

import math
import subprocess
import sys
from functools import partial

import pandas
import pytest
import torch
import torch.fx.experimental._config
from torch.utils._python_dispatch import TorchDispatchMode

from aawm.data.windows import Windows
from aawm.errors import UsageError
from aawm.models import MODELS, build, variants_of
from aawm.runs.notebooks import check_parameters, notebook_cells
from aawm.tests.conftest import ROOT, few
from aawm.training import LoopSettings, loop, preset_settings
from aawm.training.check import wandering
from aawm.training.folder import describe_run
from aawm.training.presets import changed_settings
from aawm.training.loop import captured_loss, checked_loss, training_step
from aawm.models.base import ON_CPU, ON_GPU, float32_products
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
    for name in ("rand", "randn"):
        plain = getattr(torch, name)
        made = lambda *size, device=None, generator=None, plain=plain, **more: plain(*size, **more).to(device or "cpu")
        monkeypatch.setattr(torch, name, made)
    with float32_products():
        yield


@pytest.fixture
def same_precision():
    "Products in full precision."
    with float32_products():
        yield


def case(name, preset="smoke", device="cpu", trials=6):
    "A model with random weights, calibrated, and a batch."
    name, variant = CASES[NAMES.index(name)]
    settings, training = preset_settings(preset, name, variant)
    torch.manual_seed(0)
    model = build(name, variant, **settings)
    states = wandering(trials, 0)
    model.calibrate(states)
    batch = {"states": states[:, : training.window].to(device), "end_state": states[:, -1].to(device), "context": training.context}
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
        gradients = [float(part.grad.square().sum()) for part in model.parameters() if part.grad is not None]
        found.append((float(loss.detach()), math.sqrt(sum(gradients))))
    assert found[1] == pytest.approx(found[0], rel=1e-3)


@on_gpu
@pytest.mark.parametrize("name", NAMES)
def test_rollouts_are_those_of_the_cpu(name, same_noise):
    cpu, gpu = (rolled_out(case(name, device=device)[0], wandering(6, 1, device)).cpu() for device in ("cpu", DEVICE))
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
        losses.append([float(training_step(model.train(), optimizer, batch, step, 0, training)) for step in range(3)])
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


def course(name, graphs, device=DEVICE, steps=5):
    "The losses of a few training steps, and whether a graph was made."
    torch.manual_seed(0)
    model, batch, training = case(name, device=device)
    optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-3)
    loss_of = captured_loss(model, batch, training) if graphs else None
    losses = []
    for step in range(steps):
        now = batch | {"states": batch["states"].roll(step, 0)}
        losses.append(training_step(model, optimizer, now, step, 0, training, loss_of))
    return [float(loss) for loss in losses], loss_of is not None and hasattr(loss_of, "__self__")


@on_gpu
@pytest.mark.parametrize("name", NAMES)
def test_a_graph_gives_the_same_losses(name, same_precision):
    plain, _ = course(name, graphs=False)
    captured, made = course(name, graphs=True)
    assert made == (name not in SIZES_DEPEND_ON_DATA)
    assert captured == pytest.approx(plain, rel=1e-3)


class Replayed(torch.autograd.Function):
    "What a graph does, on the CPU: its inputs, its loss and its gradients stay in one memory each."

    @staticmethod
    def forward(context, kept, *parameters):
        context.kept = kept
        with torch.enable_grad():
            loss = kept["run"](*kept["inputs"])
        kept["gradients"] = torch.autograd.grad(loss, parameters, allow_unused=True)
        return kept["loss"].copy_(loss.detach()).view_as(kept["loss"])

    @staticmethod
    def backward(context, upstream):
        return None, *(part if part is None else part * upstream for part in context.kept["gradients"])


def graphed_on_cpu(loss_of, tensors, **_):
    "Stands in for `torch.cuda.make_graphed_callables`."
    kept = {"run": loss_of.forward, "inputs": [value.clone() for value in tensors], "loss": torch.zeros(())}

    def forward(*given):
        for place, value in zip(kept["inputs"], given):
            place.copy_(value)
        return Replayed.apply(kept, *(part for part in loss_of.parameters() if part.requires_grad))

    loss_of.forward = forward


@pytest.mark.parametrize("name", ["multistep_predictor", "rssm_discrete"])
def test_training_through_a_graph_is_training(name, monkeypatch):
    "Without a GPU: memory that is written again at each step, and the same seeds, change no loss."
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", graphed_on_cpu)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: None)
    captured, made = course(name, True, "cpu", 3)
    plain, _ = course(name, False, "cpu", 3)
    assert made and captured == pytest.approx(plain, rel=1e-5) and len(set(captured)) == 3


@pytest.mark.parametrize("graphs", [True, False])
def test_training_on_a_gpu_takes_one_graph_by_default(graphs, monkeypatch, tmp_path):
    weight = type("OnGpu", (torch.nn.Parameter,), {"is_cuda": True})(torch.ones(1))
    model = torch.nn.ParameterList([weight])
    model.loss = lambda batch: (weight.sum(), {})
    taken = []
    monkeypatch.setattr(loop, "captured_loss", lambda *given: taken.append(given) or partial(checked_loss, model))
    settings = LoopSettings(steps=3) if graphs else LoopSettings(steps=3, graphs=False)
    loop.train(model, lambda step: {}, [], tmp_path, settings, progress=False)
    assert len(taken) == graphs


def test_a_loss_that_waits_and_a_batch_of_another_form_go_without_a_graph(monkeypatch):
    model, batch, training = case("multistep_predictor")
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: None)
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", graphed_on_cpu)
    loss_of = captured_loss(model, batch, training)
    fewer = {name: value[:2] if torch.is_tensor(value) else value for name, value in batch.items()}
    torch.manual_seed(0)
    expected = model.loss(fewer)[0]
    torch.manual_seed(0)
    assert torch.equal(loss_of(fewer), expected)

    def waits(*_, **__):
        raise RuntimeError("called a synchronizing CUDA operation")

    before = {name: value.clone() for name, value in model.state_dict().items()}
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", waits)
    assert captured_loss(model, batch, training).func is checked_loss
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_script_for_a_gpu_runs_to_its_end(monkeypatch):
    "On the CPU, with one small model; of its notebook the parameters and the plan are read."
    script = {"__name__": "script"}
    exec(compile((ROOT / ".ci/gpu").read_text(), "gpu", "exec"), script)
    run = []
    small = {"PRESETS": {"smoke": ["rssm_discrete"]}, "generate": lambda *_, **__: "store", "resolve": lambda path: ROOT / ".ci/gpu"}
    script |= small | {"run_notebook": lambda notebook, output, parameters: run.append(check_parameters(notebook, parameters))}
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--preset", "smoke", "--steps", "2"])
    script["main"]()
    cells = [source for _, source, _ in notebook_cells("nbs/pipeline/points.ipynb") if "def point(" in source]
    exec(cells[0], page := {"plan": run[0]["plan"], "pd": pandas, "UsageError": UsageError})
    model, _, seed, recipe = page["points"][0].values()
    changed_settings(model, *preset_settings("laptop", model), dict(word.split("=") for word in recipe.split()))


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
        if masks or name in ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero"):
            self.found.append(name)
        return operation(*given, **(named or {}))


# which objects move in a batch: two masks, `nonzero` twice
SIZES_DEPEND_ON_DATA = {"event_transformer": 4, "strong_oracle": 4}


@pytest.mark.parametrize("name", few(NAMES, 3))
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


@pytest.mark.parametrize("name", few(NAMES, 3))
def test_no_training_step_makes_anything_on_the_cpu(name):
    "Without a GPU: the loss and its gradient on the device `meta`, where a tensor of the CPU raises."
    model, batch, _ = case(name, device="meta", trials=3)
    # which objects move is not known there
    with torch.fx.experimental._config.patch(meta_nonzero_assume_all_nonzero=True):
        for learning in (True, False):
            loss = model.train(learning).loss(batch)[0]
        loss.backward()
    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    assert gradients and all(part.device.type == "meta" for part in [loss, *gradients])


def test_tf32_is_on_for_the_preset_gpu_and_off_afterwards():
    assert {preset_settings("gpu", name)[1].precision for name in MODELS} == {"tf32"}
    before = [kind.fp32_precision for kind in ON_GPU + ON_CPU]
    for precision, kinds, said in (("tf32", ON_GPU, "tf32"), ("32-true", ON_GPU + ON_CPU, "ieee")):
        with as_it_was(1, precision):
            assert {kind.fp32_precision for kind in kinds} == {said}
            record = describe_run(torch.nn.Linear(1, 1), LoopSettings(), 0, {})
        assert record["versions"]["float32"] == f"{said}, cudnn {said}"
    assert [kind.fp32_precision for kind in ON_GPU + ON_CPU] == before


@pytest.mark.slow
def test_a_users_own_precision_ends_no_run_and_stays():
    lines = (
        "torch.set_float32_matmul_precision('medium')", "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
        "torch.backends.cudnn.allow_tf32 = False", "torch.backends.cuda.matmul.allow_tf32 = True",
        "torch.backends.fp32_precision = 'tf32'", "torch.backends.cudnn.rnn.fp32_precision = 'ieee'",
    )
    code = f"""import torch
from aawm.models.base import ON_CPU, ON_GPU, float32_products
from aawm.training.run import as_it_was
for line in {lines}:
    exec(line)
    before = [kind.fp32_precision for kind in ON_GPU + ON_CPU]
    with as_it_was(1):
        assert all(kind.fp32_precision == "ieee" for kind in ON_GPU + ON_CPU), line
    assert [kind.fp32_precision for kind in ON_GPU + ON_CPU] == before, line
"""
    subprocess.run([sys.executable, "-c", code], check=True)
