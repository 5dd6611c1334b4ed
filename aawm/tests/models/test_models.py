"World models: parity with the released code, and the contract that every model keeps."


import numpy as np
import pytest
import torch

from aawm.errors import BadData, UsageError
from aawm.models import VARIANTS, build, load_released
from aawm.tests.conftest import FIXTURES
from aawm.training.check import check_model

PARITY = FIXTURES / "parity"
RELEASED = ("multistep_predictor", "multistep_delta", "rssm_discrete", "rssm_continuous", "transformer")
EVERY = [(name, variant) for name in (*RELEASED, "sgnet", "oracle") for variant in VARIANTS]


@pytest.fixture(scope="module")
def parity():
    stored = {}
    for name in ("rollouts.npz", "rollouts_more.npz"):
        with np.load(PARITY / name) as part:
            stored |= {key: torch.as_tensor(part[key]) for key in part}
    return stored


def relative(ours, theirs):
    return float((ours.detach().double() - theirs).norm() / theirs.norm())


def released(name):
    return load_released(name, PARITY / f"{name}.pt", PARITY / f"{name}.json")


@pytest.mark.parametrize("name", RELEASED)
def test_published_rollouts_are_those_of_the_released_code(parity, name):
    model = released(name)
    for context, horizon in ((50, 40), (73, 20)):
        future = model.rollout(parity["states"], context, horizon, mode=True)
        assert relative(future, parity[f"{name}_{context}_{horizon}"]) < 1e-4
    future = model.rollout(parity["states"], torch.tensor([50, 73, 50, 73]), 20, mode=True)
    assert relative(future[::2], parity[f"{name}_50_40"][::2, :20]) < 1e-4
    assert relative(future[1::2], parity[f"{name}_73_20"][1::2]) < 1e-4


@pytest.mark.parametrize("name", RELEASED)
def test_published_losses_are_those_of_the_released_code(parity, name):
    latents = {"mode": True} if name.startswith("rssm") else {}
    loss, logs = released(name).loss({"states": parity["states"]}, **latents)
    assert relative(loss, parity[f"{name}_loss"]) < 1e-4
    if latents:
        assert relative(logs["kl"], parity[f"{name}_kl"]) < 1e-4


def test_the_masks_in_a_released_transformer_are_passed_over_and_other_strangers_are_not(parity, tmp_path):
    weights = torch.load(PARITY / "transformer.pt", weights_only=True)
    whole = weights | {f"transformer.blocks.{i}.attn.mask": torch.ones(400, 400).tril() for i in range(2)}
    torch.save(whole, tmp_path / "whole.pt")
    model = load_released("transformer", tmp_path / "whole.pt", PARITY / "transformer.json")
    assert relative(model.rollout(parity["states"], 50, 40), parity["transformer_50_40"]) < 1e-4
    torch.save(weights | {"mask": torch.ones(2)}, tmp_path / "stranger.pt")
    with pytest.raises(BadData, match="mask unknown"):
        load_released("transformer", tmp_path / "stranger.pt", PARITY / "transformer.json")


def test_a_flipped_kind_of_weights_is_refused(tmp_path):
    with pytest.raises(BadData, match="does not fit"):
        load_released("rssm_discrete", PARITY / "multistep_predictor.pt", PARITY / "rssm_discrete.json")
    weights = torch.load(PARITY / "multistep_predictor.pt", weights_only=True)
    weights["mlp.0.bias"][3] = torch.nan
    torch.save(weights, tmp_path / "nan.pt")
    with pytest.raises(BadData, match="mlp.0.bias not finite"):
        load_released("multistep_predictor", tmp_path / "nan.pt", PARITY / "multistep_predictor.json")


# the page of `check_model` tries every model in both variants
@pytest.mark.parametrize("name", [name for name in (*RELEASED, "oracle") if name != "transformer"])
def test_the_contract_is_kept(name):
    report = check_model(name)
    warned = {check for check, outcome, _ in report.lines if outcome == "warning"}
    assert report.passed and "last context step used" not in warned, report


@pytest.mark.parametrize("name, variant", EVERY)
def test_the_loss_has_a_finite_gradient_in_every_weight(name, variant):
    changed = {"free_nats": 0.0} if name.startswith("rssm") and variant == "corrected" else {}
    changed |= {"max_length": 79} if name == "transformer" else {}
    torch.manual_seed(0)
    model = build(name, variant, **changed)
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(0.05 * torch.randn_like(weights))  # none so small that it has no effect
    states = torch.randn(4, 300, 35)
    loss, logs = model.loss({"states": states[:, :80], "end_state": states[:, -1]})
    loss.backward()
    assert loss.isfinite() and all(np.isfinite(float(value)) for value in logs.values())
    for key, weights in model.named_parameters():
        assert weights.grad is not None and weights.grad.isfinite().all() and weights.grad.abs().sum() > 0, key


def test_calls_out_of_range_name_the_valid_range():
    model = build("multistep_predictor")
    states = torch.randn(4, 300, 35)
    for context, horizon in ((torch.tensor([1, 2, 3, 300]), 5), (50, 300)):
        with pytest.raises(UsageError, match="valid are 1 to 299|from 1 to 299"):
            model.rollout(states, context, horizon)
    for wrong in (states[..., :34], states[0], states.long()):
        with pytest.raises(UsageError, match="states"):
            model.rollout(wrong, 50, 5)
    with pytest.raises(UsageError, match="leaves nothing to predict"):
        model.loss({"states": states[:, :50]})
