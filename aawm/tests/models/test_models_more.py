"The baselines: what distinguishes them, how they train, and that `check_model` finds what breaks the contract."

import math

import numpy as np
import pytest
import torch
import xarray

from aawm.errors import UsageError
from aawm.models import VARIANTS, WorldModel, build, load_weights
from aawm.models.base import Scaler
from aawm.models.rssm import filter_states
from aawm.models.transformer import sample_tokens
from aawm.models.weights import ship_weights
from aawm.schema import flatten, unflatten
from aawm.sim import simulate
from aawm.training import fit, load_run, preset_settings
from aawm.training.check import check_model
NAMES = ("multistep_delta", "rssm_continuous", "transformer", "sgnet")
EVERY = [(name, variant) for name in NAMES for variant in VARIANTS]


def case(name, variant, trials=4, seed=0, **changed):
    "A small model with random weights, none of them so small that it has no effect, and trials."
    torch.manual_seed(seed)
    model = build(name, variant, **changed)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(0.05 * torch.randn_like(weights))
    return model, torch.randn(trials, 300, 35)


def test_the_corrected_transformer_does_not_know_where_a_window_began():
    model, states = case("transformer", "corrected")
    model.eval()
    states, before = states[:, 1:41], states[:, :40]
    here, there = (model.read(states, before, torch.arange(first, first + 40))[0] for first in (0, 200))
    assert torch.allclose(here, there, atol=1e-3)
    assert not torch.allclose(here, model.read(states, before, 2 * torch.arange(40))[0], atol=1e-2)


def test_the_cached_rollout_is_the_uncached_one(tokenised, trials):
    window = trials[:, :30]
    with torch.no_grad():
        for _ in range(15):
            before = torch.cat([window[:, :1], window[:, :-1]], 1)
            hidden = tokenised.read(window, before, torch.arange(window.shape[1]))[0][:, -1]
            following = tokenised.tokens.advance(window[:, -1], sample_tokens(tokenised.tokens, hidden, mode=True))
            window = torch.cat([window, following[:, None]], 1)
    assert torch.allclose(tokenised.rollout(trials, 30, 15, mode=True), window[:, 30:], atol=1e-3)
    assert not torch.equal(window[:, 30], window[:, 31]), "something moves"


@pytest.mark.parametrize("name, variant", EVERY + [(name, "corrected") for name in ("multistep_predictor", "rssm_discrete", "oracle")])
def test_several_futures_of_a_trial_in_one_call(name, variant):
    model, states = case(name, variant, trials=3)
    told = {"end_state": states[:, -1]} if model.privileged else None
    contexts = torch.tensor([7, 50, 20])
    many = model.rollout(states, contexts, 12, torch.Generator().manual_seed(0), privileged=told, samples=4)
    likeliest, one = (model.rollout(states, contexts, 12, mode=True, privileged=told, samples=n) for n in (2, None))
    assert many.shape == (3, 4, 12, 35) and torch.allclose(likeliest, one[:, None].expand(-1, 2, -1, -1), atol=1e-4)
    draws = name in ("rssm_continuous", "rssm_discrete", "sgnet")
    assert bool((many[:, 0] - many[:, 1]).abs().flatten(1).amax(1).gt(1e-3).all()) == draws
    with pytest.raises(UsageError, match="samples must be a whole number of at least 1, got 0"):
        model.rollout(states, contexts, 12, privileged=told, samples=0)


def test_sgnet_trains_on_its_own_chunks_as_far_as_the_window_reaches():
    losses = {}
    for chunks, window in ((1, 80), (3, 80), (3, 60), (3, 69)):
        model, states = case("sgnet", "corrected", chunks=chunks)
        torch.manual_seed(1)
        losses[chunks, window] = float(model.loss({"states": states[:, :window]})[0].detach())
    assert losses[3, 80] > losses[1, 80] and losses[3, 60] == losses[3, 69] == losses[1, 80]
    with pytest.raises(UsageError, match="longer window"):
        model.loss({"states": states[:, :10], "context": 5})


class Steady(WorldModel):
    "Keeps the contract; each model below breaks it in one point."

    def __init__(self, config=None, variant="corrected"):
        super().__init__(config, variant)
        self.change = torch.nn.Parameter(torch.zeros(35))

    def loss(self, batch):
        states = batch["states"]
        return (states[:, :-1] + self.change - states[:, 1:]).square().mean(), {}

    def imagine(self, states, lengths, horizon, generator=None, mode=False, privileged=None):
        last = states[torch.arange(len(states)), lengths - 1]
        return last[:, None] + self.change * torch.arange(1, horizon + 1, device=states.device)[:, None]


def last_of(states, lengths, horizon):
    return states[torch.arange(len(states)), lengths - 1][:, None].expand(-1, horizon, -1)


def change_itself(model, states, lengths, horizon, *rest):
    model.change.data += 1e-6
    return last_of(states, lengths, horizon)


def divide_by_zero(model, states, lengths, horizon, *rest):
    return last_of(states, lengths, horizon) / torch.tensor([1.0] * 7 + [0.0] * (horizon - 7))[:, None]


def raise_at_the_end(model, states, lengths, horizon, *rest):
    if lengths.max() == 299:
        raise RuntimeError("no memory for so much\nand more")
    return last_of(states, lengths, horizon)


FAULTS = [  # method, what stands in its place, the check that finds it
    ("loss", lambda model, batch: ((batch["states"] - model.change).square(), {}), "loss"),
    ("loss", lambda model, batch: ((model.change * torch.nan).sum(), {}), "loss"),
    ("imagine", lambda model, states, lengths, horizon, *rest: last_of(states, lengths, horizon + 1), "shape of a rollout"),
    ("imagine", divide_by_zero, "finite"),
    ("imagine", lambda model, states, *rest: last_of(states, *rest[:2]) + states.mean((0, 1)), "batch equals singles"),
    ("imagine", change_itself, "nothing changed"),
    ("imagine", raise_at_the_end, "context 1 and 299"),
]


def found(report, outcome):
    return {name for name, what, _ in report.lines if what == outcome}


@pytest.mark.parametrize("method, instead, fault", FAULTS)
def test_check_model_finds_each_fault(method, instead, fault):
    report = check_model(type("Faulty", (Steady,), {method: instead}))
    assert fault in found(report, "FAILED")
    said = next(wrong for name, _, wrong in report.lines if name == fault)
    assert said and len(said.splitlines()) == 1
    if fault not in ("shape of a rollout", "finite", "nothing changed"):  # one fault, one finding
        assert found(report, "FAILED") == {fault}


@pytest.mark.parametrize("change, warned", [
    ({}, set()),
    ({"imagine": lambda model, states, lengths, horizon, *rest: states[:, :1].expand(-1, horizon, -1)}, {"last context step used"}),
    ({"privileged": ("end_state",)}, {"privileged values used"}),
])
def test_check_model_passes_what_keeps_the_contract_and_warns_of_what_is_odd(change, warned):
    report = check_model(type("Odd", (Steady,), change))
    untried = {"another device", "CPU and GPU agree"}  # without a GPU
    assert report.passed and found(report, "warning") - untried == warned, report


def test_check_model_leaves_model_and_random_state_as_they_were():
    model = build("rssm_discrete").eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    assert check_model(model).passed
    assert torch.equal(torch.get_rng_state(), state) and not model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def trials_of(states):
    "A store's trials with these states, a quarter of them for validation."
    held_out = len(states) // 4
    split = ["train"] * (len(states) - held_out) + ["validation"] * held_out
    return xarray.Dataset(
        {"state": (("trial", "step", "entity", "feature"), states.astype(np.float32)), "split": ("trial", split)},
        attrs={"data_hash": "made up"}
    )


SLOW_TO_TRAIN = ("sgnet",)  # half a minute


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW_TO_TRAIN else []) for name in NAMES]
)
def test_each_model_trains_with_its_smoke_settings_and_is_read_back_whole(name, tmp_path):
    walk = 0.02 * np.random.default_rng(0).normal(size=(12, 300, 5, 7)).cumsum(1)
    model_settings, training = preset_settings("smoke", name)
    short = dict(
        steps=4, batch=3, warm_up=1, window=training.window, context=training.context, validation_windows=3,
        validate_every=4
    )
    run = fit(
        name, trials_of(walk), tmp_path / name, model_settings=model_settings, training_settings=short, device="cpu",
        progress=False
    )
    model = load_run(run)
    states = torch.as_tensor(walk.reshape(12, 300, 35), dtype=torch.float32)
    assert not torch.equal(model.scaler.spread, torch.ones(35))
    if name == "transformer":  # knows the size of a step's change, in spreads
        assert model.change.spread == pytest.approx(
            np.sqrt((np.diff(walk[:9], axis=1) ** 2).mean()) / model.scaler.spread.numpy(), rel=0.05
        )
    assert load_run(run).rollout(states, 50, 5, mode=True).equal(model.rollout(states, 50, 5, mode=True))


@pytest.mark.parametrize("name", [*NAMES, "rssm_discrete"])
def test_each_model_trains_in_mixed_precision(name, tmp_path):
    trials = trials_of(np.random.default_rng(0).normal(size=(8, 300, 5, 7)))
    short = dict(steps=2, batch=3, window=40, context=10, validation_windows=3, precision="bf16-mixed")
    model = load_run(fit(name, trials, tmp_path / name, training_settings=short, device="cpu", progress=False))
    assert all(weights.dtype == torch.float32 and weights.isfinite().all() for weights in model.parameters())


# one scaling, and files from before it


BASELINES = (
    "multistep_predictor", "multistep_delta", "rssm_discrete", "rssm_continuous", "transformer", "sgnet",
    "oracle"
)


@pytest.fixture(scope="module")
def trials():
    "Three simulated trials `[3, 300, 35]`."
    scenarios = ("gathering_static", "multistep_static", "gathering_random")
    return flatten(torch.from_numpy(np.stack([simulate(scenario, 2, "planar").states[::5] for scenario in scenarios])))


@pytest.mark.parametrize("name", BASELINES)
def test_all_baselines_share_one_scaling_by_feature_and_kind(name, trials):
    settings, _ = preset_settings("smoke", name)
    model = build(name, **settings)
    model.calibrate(trials)
    scaler = Scaler()
    scaler.calibrate(trials)
    assert torch.equal(model.scaler.mean, scaler.mean) and torch.equal(model.scaler.spread, scaler.spread)
    robots = unflatten(trials)[..., 3:, :].flatten(0, 2)
    assert torch.allclose(unflatten(scaler.spread)[4], robots.std(0).clamp(min=0.1), atol=1e-3)


@pytest.mark.parametrize("name, more", [("multistep_predictor", {"object_weight": 20.0}), ("transformer", {"form": "tokens"})])
def test_weights_files_from_before_load_with_what_they_meant(name, more, trials, tmp_path):
    "Files say what no rollout needs, such as `object_weight`. Their own spreads count."
    settings = preset_settings("smoke", name)[0]
    torch.manual_seed(0)
    model = build(name, **settings).eval()
    model.scaler.spread.fill_(1.5)  # pooled over all entities, as it was
    older = {"model": name, "variant": "corrected", "config": settings | more, "seed": 0}
    path = ship_weights(model.half().float(), tmp_path / "old.safetensors", older)
    assert torch.equal(*(one.rollout(trials, 50, 12, mode=True) for one in (model, load_weights(path))))


# tokens of the Transformer


@pytest.fixture(scope="module")
def tokenised(trials):
    model = build("transformer", codes=128)
    model.calibrate(trials)
    return model


def test_tokens_lead_along_the_true_path(tokenised, trials):
    tokens = tokenised.tokens.encode(unflatten(trials).diff(dim=1))
    again = tokenised.tokens.advance(trials[:, :-1], tokens)
    off = (unflatten(again) - unflatten(trials[:, 1:]))[..., :3].norm(dim=-1)
    moved = unflatten(trials).diff(dim=1)[..., :3].norm(dim=-1)
    assert off.mean() < 0.1 * moved[moved > 0.01].mean() and float(off.quantile(0.99)) < 0.1
    rests = (unflatten(trials).diff(dim=1) == 0).all(-1)
    assert rests.any() and not tokens[rests].any() and torch.equal(
        unflatten(again)[rests], unflatten(trials[:, 1:])[rests]
    )


def test_a_token_transformer_learns_and_what_has_no_token_stays(trials):
    torch.manual_seed(0)
    model = build("transformer", width=32, layers=1, codes=64)
    model.calibrate(trials)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(40):
        loss, logs = model.loss({"states": trials[:, :120]})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0] and losses[0] == pytest.approx(10 * math.log(64), rel=0.05)
    future = unflatten(model.rollout(trials, 60, 30, generator=torch.Generator().manual_seed(0)))
    change = future.diff(dim=1)
    still = (change[..., :3, :] == 0).all(-1)
    assert still.float().mean() > 0.5, "objects mostly rest, to the last bit"
    assert torch.allclose(future[..., 3:].norm(dim=-1), torch.tensor(1.0), atol=1e-3)


@pytest.mark.parametrize("name", ["rssm_discrete", "rssm_continuous"])
def test_an_rssm_that_decodes_states_has_dreamers_loss_and_rollout(name, trials):
    torch.manual_seed(0)
    model = build(name, decodes="states", free_nats=0.0).eval()
    model.calibrate(trials)
    loss, logs = model.loss({"states": trials[:, :40]}, mode=True)
    memories, latents, posterior = filter_states(model, model.scaler(trials[:, :40]), mode=True)
    error = model.weighted(model.decode(memories, latents) - model.scaler(trials[:, :40])).sum(-1).mean() / (
        2 * model.config.spread**2
    )
    assert torch.allclose(loss, error + logs["kl"], rtol=1e-4)
    future = model.rollout(trials, 40, 5, mode=True)
    moved = trials + torch.tensor([3.0] + 34 * [0.0])
    away = model.rollout(moved, 40, 5, mode=True) - future
    assert float(away[..., 0].abs().max()) < 2.9, "a decoded state does not hang on the last one shown"
    with pytest.raises(UsageError, match="decoder"):
        build(name, decodes="state")
