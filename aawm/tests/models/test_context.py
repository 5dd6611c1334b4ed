"What a rollout is given travels as one `Context`; a model's own `imagine` may take it in separate arguments."


import pytest
import torch

from aawm.errors import ModelContractError
from aawm.models import MODELS, WorldModel, build
from aawm.models.base import last_shown

LENGTHS = torch.tensor([3, 9, 5])


@pytest.fixture(scope="module")
def states():
    return torch.randn(3, 20, 35, generator=torch.Generator().manual_seed(0))


class OfContext(WorldModel):
    "Stands still."

    def imagine_from(self, context, horizon):
        return context.last()[:, None].expand(-1, horizon, -1)


class OfArguments(WorldModel):
    "Stands still, as models were written before."

    def imagine(self, states, lengths, horizon, generator=None, mode=False, privileged=None):
        return last_shown(states, lengths)[:, None].expand(-1, horizon, -1)


def test_a_model_takes_a_context_or_separate_arguments(states):
    rollouts = [kind().rollout(states, LENGTHS, 4) for kind in (OfContext, OfArguments)]
    assert torch.equal(*rollouts) and torch.equal(rollouts[0][1, 0], states[1, 8])
    with pytest.raises(ModelContractError, match="imagine_from"):
        WorldModel().rollout(states, LENGTHS, 4)


def test_a_subclass_calls_its_parent_in_separate_arguments(states):
    kind = MODELS["multistep_predictor"]

    class Shifted(kind):
        def imagine(self, states, lengths, horizon, generator=None, mode=False, privileged=None):
            return super().imagine(states, lengths, horizon) + 1

    plain = build("multistep_predictor")
    shifted = Shifted()
    shifted.load_state_dict(plain.state_dict())
    assert torch.equal(shifted.rollout(states, LENGTHS, 4), plain.rollout(states, LENGTHS, 4) + 1)
