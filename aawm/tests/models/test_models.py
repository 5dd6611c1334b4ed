"World models: parity with the released code, and the contract that every model keeps."

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aawm.errors import BadData, ModelContractError, UsageError
from aawm.models import MODELS, VARIANTS, WorldModel, build, load_released, model_class
from aawm.models.base import check_weights
from aawm.models.rssm import balanced_kl
from aawm.tests.conftest import FIXTURES

PARITY = FIXTURES / "parity"
EVERY = [
    (name, variant) for name in ("multistep_predictor", "rssm_discrete", "oracle") for variant in VARIANTS
]


@pytest.fixture(scope="module")
def parity():
    with np.load(PARITY / "rollouts.npz") as stored:
        return {key: torch.as_tensor(stored[key]) for key in stored}


def relative(ours, theirs):
    return float((ours.detach() - theirs).norm() / theirs.norm())


def released(name):
    return load_released(name, PARITY / f"{name}.pt", PARITY / f"{name}.json")


@pytest.mark.parametrize("name", ["multistep_predictor", "rssm_discrete"])
@pytest.mark.parametrize("context, horizon", [(50, 40), (73, 20)])
def test_published_rollouts_are_those_of_the_released_code(parity, name, context, horizon):
    future = released(name).rollout(parity["states"], context, horizon, mode=True)
    assert relative(future, parity[f"{name}_{context}_{horizon}"]) < 1e-4


def test_published_rollouts_with_mixed_contexts_are_those_of_the_released_code(parity):
    for name in ("multistep_predictor", "rssm_discrete"):
        future = released(name).rollout(parity["states"], torch.tensor([50, 73, 50, 73]), 20, mode=True)
        assert relative(future[::2], parity[f"{name}_50_40"][::2, :20]) < 1e-4
        assert relative(future[1::2], parity[f"{name}_73_20"][1::2]) < 1e-4


def test_published_losses_are_those_of_the_released_code(parity):
    loss, _ = released("multistep_predictor").loss({"states": parity["states"]})
    assert relative(loss.double(), parity["multistep_predictor_loss"]) < 1e-4
    loss, logs = released("rssm_discrete").loss({"states": parity["states"]}, mode=True)
    assert relative(loss.double(), parity["rssm_discrete_loss"]) < 1e-4
    assert relative(logs["kl"].double(), parity["rssm_discrete_kl"]) < 1e-4


def test_a_flipped_kind_of_weights_is_refused(tmp_path):
    with pytest.raises(BadData, match="does not fit"):
        load_released("rssm_discrete", PARITY / "multistep_predictor.pt", PARITY / "rssm_discrete.json")
    weights = torch.load(PARITY / "multistep_predictor.pt", weights_only=True)
    weights["mlp.0.bias"][3] = torch.nan
    torch.save(weights, tmp_path / "nan.pt")
    with pytest.raises(BadData, match="mlp.0.bias not finite"):
        load_released("multistep_predictor", tmp_path / "nan.pt", PARITY / "multistep_predictor.json")


def test_a_checkpoint_that_runs_code_is_refused_and_does_not_run(tmp_path):
    import os

    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    torch.save({"input_embed.weight": Hostile()}, tmp_path / "hostile.pt")
    with pytest.raises(BadData):
        load_released("multistep_predictor", tmp_path / "hostile.pt", PARITY / "multistep_predictor.json")
    assert not (tmp_path / "ran").exists()


def case(name, variant, trials=4, seed=0):
    "A small model with random weights, trials and what it is told."
    torch.manual_seed(seed)
    model = build(name, variant)
    states = torch.randn(trials, 300, 35)
    told = {"end_state": states[:, -1].clone()} if model.privileged else None
    return model, states, told


def rows(told, which):
    return told and {key: value[which] for key, value in told.items()}


@pytest.mark.parametrize("name, variant", EVERY)
@settings(max_examples=6, deadline=None)
@given(contexts=st.lists(st.integers(1, 299), min_size=4, max_size=4), horizon=st.integers(1, 12))
def test_a_batch_with_mixed_contexts_gives_what_singles_give(name, variant, contexts, horizon):
    model, states, told = case(name, variant)
    together = model.rollout(states, torch.tensor(contexts), horizon, mode=True, privileged=told)
    for i, context in enumerate(contexts):
        alone = model.rollout(states[i : i + 1], context, horizon, mode=True, privileged=rows(told, [i]))
        assert torch.allclose(together[i : i + 1], alone, atol=1e-4)


@pytest.mark.parametrize("name, variant", EVERY)
@pytest.mark.parametrize("context", [1, 50, 299])
def test_hidden_steps_are_not_used_and_the_input_is_not_changed(name, variant, context):
    model, states, told = case(name, variant)
    open_future = model.rollout(states, context, 5, mode=True, privileged=told)
    states[:, context:] = torch.nan
    before = states.clone()
    future = model.rollout(states, context, 5, mode=True, privileged=told)
    assert torch.equal(future, open_future) and future.isfinite().all()
    assert torch.equal(states.nan_to_num(7.0), before.nan_to_num(7.0))


@pytest.mark.parametrize("name, variant", EVERY)
def test_the_last_context_step_is_used(name, variant):
    model, states, told = case(name, variant)
    changed = states.clone()
    changed[:, 49] += 1.0
    futures = [model.rollout(given, 50, 5, mode=True, privileged=told) for given in (states, changed)]
    ignores = (name, variant) == ("rssm_discrete", "published")  # a fault of the released model
    assert torch.equal(*futures) == ignores


@pytest.mark.parametrize("name, variant", EVERY)
def test_the_same_seed_gives_the_same_rollout_in_training_mode_too(name, variant):
    model, states, told = case(name, variant)
    model.train()
    futures = [
        model.rollout(states, 50, 8, generator=torch.Generator().manual_seed(3), privileged=told)
        for _ in range(2)
    ]
    assert torch.equal(*futures) and model.training and not futures[0].requires_grad


@pytest.mark.parametrize("name, variant", EVERY)
def test_the_loss_has_a_finite_gradient_in_every_weight(name, variant):
    settings = {"free_nats": 0.0} if (name, variant) == ("rssm_discrete", "corrected") else {}
    torch.manual_seed(0)
    model = build(name, variant, **settings)
    states = torch.randn(4, 300, 35)
    batch = {"states": states[:, :80], "end_state": states[:, -1]}
    before = {key: value.clone() for key, value in batch.items()}
    loss, logs = model.loss(batch)
    loss.backward()
    assert loss.isfinite() and all(np.isfinite(float(value)) for value in logs.values())
    for key, weights in model.named_parameters():
        assert weights.grad is not None and weights.grad.isfinite().all() and weights.grad.abs().sum() > 0, key
    assert all(torch.equal(batch[key], before[key]) for key in before)


def test_the_corrected_rssm_trains_its_prior_and_does_not_press_a_small_divergence():
    model, _, _ = case("rssm_discrete", "corrected")
    prior = torch.randn(2, 3, 8, 8, requires_grad=True)
    posterior = torch.randn(2, 3, 8, 8, requires_grad=True)
    balanced_kl(model.latent, posterior, prior, model.config).backward()
    assert prior.grad.norm() > 0 and posterior.grad.norm() > 0
    near = prior.detach().clone().requires_grad_()
    balanced_kl(model.latent, prior.detach(), near, model.config).backward()
    assert near.grad.abs().sum() == 0


def test_names_settings_and_variants_that_do_not_exist_are_refused():
    with pytest.raises(UsageError, match="did you mean 'rssm_discrete'"):
        build("rssm_discret")
    with pytest.raises(UsageError, match="did you mean 'recurrent_size'"):
        build("oracle", recurent_size=3)
    with pytest.raises(UsageError, match="expected int"):
        build("oracle", recurrent_size="3")
    with pytest.raises(UsageError, match="variant"):
        build("oracle", "correct")
    with pytest.raises(UsageError):
        build("no_such_module:Model")
    with pytest.raises(ModelContractError):
        build("collections:OrderedDict")
    with pytest.raises(UsageError, match="no weights of oracle"):
        load_released("oracle", "x.pt", {})


def test_a_model_from_outside_the_package_is_built_by_module_and_class(tmp_path, monkeypatch):
    (tmp_path / "outside.py").write_text(
        "from aawm.models import WorldModel\n"
        "class Last(WorldModel):\n"
        "    def imagine(self, states, lengths, horizon, generator=None, mode=False, privileged=None):\n"
        "        return states[range(len(states)), lengths - 1][:, None].expand(-1, horizon, -1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    model = build("outside:Last")
    assert isinstance(model, WorldModel) and model.name == "outside:Last" and "outside:Last" not in MODELS
    states = torch.randn(2, 300, 35)
    assert torch.equal(model.rollout(states, torch.tensor([3, 9]), 2)[:, 1], states[[0, 1], [2, 8]])


def test_calls_out_of_range_name_the_valid_range():
    model, states, _ = case("multistep_predictor", "corrected")
    for context, horizon in ((0, 5), (300, 5), (torch.tensor([1, 2, 3, 300]), 5), (50, 0), (50, 300)):
        with pytest.raises(UsageError, match="valid are 1 to 299|from 1 to 299"):
            model.rollout(states, context, horizon)
    for wrong in (states[..., :34], states[0], states.long()):
        with pytest.raises(UsageError, match="states"):
            model.rollout(wrong, 50, 5)
    with pytest.raises(UsageError, match="leaves nothing to predict"):
        model.loss({"states": states[:, :50]})


@pytest.mark.parametrize("name", MODELS)
def test_sizes_of_models_are_positive(name):
    config = model_class(name).Config
    counts = {field.name for field in dataclasses.fields(config) if type(field.default) is int}
    whole = sorted(counts - set(getattr(config, "may_be_zero", ())))
    assert whole
    for field in whole:
        with pytest.raises(UsageError, match=f"{field}: expected at least 1, got 0"):
            build(name, **{field: 0})


def test_prefixes_of_wrapped_networks_are_understood():
    model = build("multistep_predictor", recurrent_size=8, hidden_size=8)
    for prefix in ("module.", "_orig_mod.", "module._orig_mod."):
        weights = {prefix + name: value for name, value in model.state_dict().items()}
        assert list(check_weights(model, weights, "a wrapped network")) == list(model.state_dict())
