"The Chooser reads deeds off states, compares them across visits, and wants along new measures are read like known ones."

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional

from aawm.data import generate_visits, open_trials
from aawm.models import build, pretrained
from aawm.models.base import ChangeScaler, Scaler, mean_of_predicted
from aawm.models.chooser import PAIRS, choose, deeds, measured, scene_numbers
from aawm.schema import STEPS, VISIT_CONTEXT, VISIT_STEPS, VISITS, cuts
from aawm.training import check_model, fit, load_run, preset_settings
from aawm.training.fitting import cuts_of


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return generate_visits(
        tmp_path_factory.mktemp("visits") / "store", subjects=60, scenes=60, workers=1, fidelity="planar", progress=False
    )


def placed(trials, random):
    "Starts of six visits `[N, 6, 35]` at places of no meaning, all rotations at rest."
    states = torch.zeros(trials, VISITS, 5, 7)
    states[..., [0, 2]] = torch.from_numpy(random.uniform(-5, 5, (trials, VISITS, 5, 2))).float()
    states[..., 6] = 1.0
    return states.flatten(2)


def by_rank(states, actor, measure, rank):
    "The deeds `[N, 6]` of robots that want what is of this rank along a measure."
    ranks = measured(states, states)[0][..., measure]
    of_actor = ranks.gather(2, actor[..., None, None].expand(-1, -1, 1, 3))[:, :, 0]
    return 3 * actor + (of_actor == rank[:, None, None]).long().argmax(-1)


def test_the_contract_is_kept():
    report = check_model("chooser", settings={"recurrent_size": 8, "hidden_size": 8}, device="cpu")
    assert report.passed, report


def test_deeds_are_those_of_the_store(store):
    trials = open_trials(store)
    states = torch.from_numpy(trials.state.values).flatten(2)
    scene = scene_numbers(states)
    assert torch.equal(scene, torch.arange(300).div(VISIT_STEPS, rounding_mode="floor").expand_as(scene))
    done = deeds(states, scene, VISITS, torch.ones_like(scene, dtype=torch.bool))
    assert (done[:, -1] % 3 == torch.from_numpy(trials.answer.values)).all() and (done < PAIRS).all()
    parked = states.unflatten(-1, (5, 7))[:, ::VISIT_STEPS, 3:, 0].abs().argmax(-1)
    assert torch.equal(done // 3, 1 - parked)


def test_swapped_robots_swap_the_choice():
    random = np.random.default_rng(0)
    states = placed(4, random)
    done = torch.from_numpy(random.integers(0, PAIRS + 1, (4, VISITS)))
    swapped = states.unflatten(-1, (5, 7))[..., [0, 1, 2, 4, 3], :].flatten(-2)
    other = torch.where(done < PAIRS, (done + 3) % PAIRS, done)
    torch.manual_seed(0)
    model = build("chooser")
    with torch.no_grad():
        logits, turned = choose(model, states, states, done), choose(model, swapped, swapped, other)
    assert torch.allclose(logits[..., [3, 4, 5, 0, 1, 2, 6]], turned, atol=1e-5)
    later = done.clone()
    later[:, -1] = 0
    assert torch.equal(choose(model, states, states, later), choose(model, states, states, done)), "no scene looks at its own deed"


def test_a_want_along_a_measure_never_trained_on_is_read_like_the_others():
    "Trained on distances from the two robots; asked about the observer."
    random = np.random.default_rng(1)
    torch.manual_seed(0)
    model = build("chooser", recurrent_size=8, hidden_size=8)
    optimizer = torch.optim.Adam(model.compare.parameters(), 1e-2)

    def subjects(count, measures):
        states = placed(count, random)
        actor = torch.from_numpy(random.integers(0, 2, (count, VISITS)))
        rank = torch.from_numpy(random.integers(0, 3, count))
        each = torch.stack([by_rank(states, actor, measure, rank) for measure in measures])
        done = each[torch.from_numpy(random.integers(0, len(measures), count)), torch.arange(count)]
        logits = choose(model, states, states, done)[..., :PAIRS].unflatten(-1, (2, 3))
        return logits.gather(2, actor[..., None, None].expand(-1, -1, 1, 3))[:, :, 0], done % 3

    for _ in range(80):
        logits, thing = subjects(48, (0, 1))
        optimizer.zero_grad()
        functional.cross_entropy(logits.flatten(0, 1), thing.flatten()).backward()
        optimizer.step()
    for measure in (0, 2):
        with torch.no_grad():
            logits, thing = subjects(200, (measure,))
        right = (logits.argmax(-1) == thing).float().mean(0)
        assert right[-1] > 0.85 > 0.5 > right[0], (measure, right)


def test_a_cut_is_given_and_never_predicted(store, tmp_path):
    trials = open_trials(store)
    assert cuts_of(trials) == cuts(trials.scenario.values[0]) == tuple(range(50, 300, 50))
    values = torch.arange(6.0)[None]
    assert mean_of_predicted(values, None) == 2.5 and mean_of_predicted(values[:, 1:], values == 5) == 2.5
    settings, training = preset_settings("visits", "rssm_continuous")
    small = {"recurrent_size": 8, "hidden_size": 8, "latents": 4}
    training = dataclasses.replace(training, steps=1, warm_up=1, batch=4, validation_windows=4)
    run = fit("rssm_continuous", trials, tmp_path, model_settings=settings | small, training_settings=training, progress=False)
    model = build("rssm_continuous", **settings | small)
    model.load_state_dict(load_run(run).state_dict())
    states = torch.from_numpy(trials.state.values).flatten(2)
    scaler, change = Scaler(), ChangeScaler()
    scaler.calibrate(states)
    change.calibrate(states, scaler)
    assert (model.change.spread < 0.5 * change.spread)[[0, 2]].all(), "jumps between visits are no changes"
    batch = {"states": states[:4], "given": torch.zeros(4, 300, dtype=torch.bool)}
    torch.manual_seed(0)
    every = model.loss(batch, mode=True)[0]
    batch["given"][:, cuts(trials.scenario.values[0])] = True
    assert model.loss(batch, mode=True)[0] < 0.5 * every, "jumps are most of an error that counts them"


def test_shipped_weights_answer_what_they_were_trained_on(store):
    trials = open_trials(store)
    model = pretrained("chooser", folder="data/weights/visits")
    states = torch.from_numpy(trials.state.values).flatten(2)[:, :VISIT_CONTEXT]
    imagined = torch.cat([states, model.rollout(states, VISIT_CONTEXT, STEPS - VISIT_CONTEXT, mode=True)], 1)
    scene = scene_numbers(imagined)
    done = deeds(imagined, scene, VISITS, torch.ones_like(scene, dtype=torch.bool))
    assert (done[:, -1] % 3 == torch.from_numpy(trials.answer.values)).float().mean() > 0.8
