"""Shapes and counts of the learned observers, causality, what they read, the gate, and pictures."""

import dataclasses

import numpy as np
import pytest
import torch

from aawm import infant
from aawm.infant import change
from aawm.infant.change import (
    ChangeConfig, ChangeObserver, ChangeTransformer, mirrored, queries_of, strip_of, tokens_of,
)
from aawm.errors import ModelContractError, UsageError
from aawm.infant.gate import measure_gate, read_gate
from aawm.infant.observers import checked_surprise
from aawm.infant.training import LEARNERS, build, fit, load_observer
from aawm.infant.transformer import TransformerConfig, VideoTransformer


def count(module) -> int:
    return sum(weights.numel() for weights in module.parameters())


def few(tmp_path, names=("preference", "goal_attribution", "belief")):
    videos = [infant.make_item(name, 0)[0] for name in names]
    return infant.open_episodes(infant.write_videos(tmp_path / "few", videos, {}))


def test_published_sizes():
    config = TransformerConfig()
    assert (config.size, config.patches, config.values, config.keep * config.patches) == (84, 49, 432, 735)
    assert count(VideoTransformer()) == count(build("frame_transformer", "paper")) == 2_425_904


def test_a_later_sample_changes_no_earlier_prediction():
    torch.manual_seed(0)
    model = VideoTransformer(TransformerConfig(size=24, width=32, heads=4, layers=2, feed_forward=64)).eval()
    frames = torch.randint(256, (1, 6, 24, 24, 3), dtype=torch.uint8)
    sample = torch.arange(6)[None]
    seen = torch.ones(1, 6, dtype=torch.bool)
    for t in range(1, 6):
        changed = frames.clone()
        changed[:, t] = 255 - changed[:, t]
        with torch.no_grad():
            memory = model.encode(frames, sample, seen)
            one, other = (model.decode(memory, shown, sample) for shown in (frames, changed))
        assert torch.equal(one[:, :t], other[:, :t]) and not torch.equal(one[:, t], other[:, t])


def test_pictures_show_what_states_say(tmp_path):
    episodes = few(tmp_path)
    assert infant.frames(episodes.isel(episode=0), 42).shape == (
        9, int(episodes["length"][0].max()), 42, 42, 3
    )
    assert np.array_equal(
        infant.frames(infant.make_item("preference", 0)[0], 42), infant.frames(episodes.isel(episode=0), 42)
    )
    batch = infant.make_batch(episodes)
    picture = infant.draw(batch, [0], [8], [0], 200)[0].numpy()
    walls = np.kron(batch.walls[0, 8], np.ones((20, 20), bool))
    assert (picture[walls] == 0).all(-1).mean() > 0.995, "an object may lean over an edge by a pixel"
    state = batch.state[0, 8, 0, 0]
    color = np.array([int(str(batch.color[0, 0])[k : k + 2], 16) for k in (1, 3, 5)])
    assert np.abs(picture[state[0], state[1]].astype(int) - color).max() < 40
    lit = infant.draw(batch, [1], [8], [int(batch.length[1, 8]) - 1], 200)[0].numpy()
    assert ((lit == (255, 0, 0)).all(-1)).sum() > 50


def test_a_square_hides_and_a_key_is_turned(tmp_path):
    batch = infant.make_batch(few(tmp_path, ("goal_attribution",)))
    hub = batch.state[0, 8, 0, batch.kind[0].tolist().index("spinner"), :2]
    picture = infant.draw(batch, [0, 0], [0, 8], [0, 0], 200).numpy()
    inner = [one[hub[0] - 20 : hub[0] + 20, hub[1] - 20 : hub[1] + 20] for one in picture]
    assert len(np.unique(inner[1].reshape(-1, 3), axis=0)) == 1, "in the test the square covers the spinner"
    assert len(np.unique(inner[0].reshape(-1, 3), axis=0)) > 1, "before, the spinner is on it"


def test_every_set_is_known_from_the_package_alone():
    for name in infant.SETS + infant.TRAINING_SETS:
        assert len(infant.make_item(name, 0)) in (1, 2, 4)


SMALL = ChangeConfig(width=32, layers=1, feed_forward=64)


@pytest.fixture(scope="module")
def pair():
    "Both videos of one item, as observers get them."
    return [infant.make_batch(video) for video in infant.make_item("preference", 0)]


def changed_model():
    torch.manual_seed(0)
    model = ChangeTransformer(SMALL)
    torch.nn.init.normal_(model.head.draw.weight, std=0.1)
    return model.eval()


def test_before_training_the_change_is_none(pair):
    fresh = ChangeObserver(ChangeTransformer(SMALL))
    own, rule = (checked_surprise(one, pair[0])[0] for one in (fresh, fresh.naive()))
    assert np.allclose(own, rule, equal_nan=True, atol=1e-6) and np.nanmax(own) > 1e-4, "something moves"


def test_what_comes_later_changes_no_predicted_change(pair):
    model = changed_model()
    trial = np.full(1, 8)
    strip = strip_of(pair[0], np.zeros(1, int), trial, SMALL)
    memory = model.encode(tokens_of(strip_of(pair[0], np.zeros(1, int), np.zeros(1, int), SMALL), SMALL))
    sample = np.arange(strip.count[0] - 1)[None]
    for t in (4, 6, 8):
        later = dataclasses.replace(strip, patches=strip.patches.clone())
        later.patches[strip.sample > t] = 255 - later.patches[strip.sample > t]
        with torch.no_grad():
            one, other = (
                model.decode(memory, tokens_of(shown, SMALL), queries_of(shown, sample))
                for shown in (strip, later)
            )
        assert torch.allclose(one[:, : t + 1], other[:, : t + 1], atol=1e-6) and not torch.allclose(
            one[:, t + 1 :], other[:, t + 1 :], atol=1e-3
        )


def test_a_shared_history_is_encoded_once_and_company_changes_nothing(pair):
    watcher = ChangeObserver(changed_model())
    calls = []
    encode = watcher.model.encode
    watcher.model.encode = lambda tokens: calls.append(len(tokens["seen"])) or encode(tokens)
    curves = [watcher.surprise(one)[0] for one in pair]
    assert sum(calls) == SMALL.pairings, "the second member of the item brings no new history"
    assert not np.array_equal(*curves, equal_nan=True) and np.array_equal(
        watcher.surprise(pair[1])[0], curves[1], equal_nan=True
    )


def test_a_training_picture_is_mirrored_as_a_whole(pair):
    picture = infant.draw(pair[0], [0], [8], [40], 42)
    for turn, same in {
        1: picture.flip(1), 2: picture.flip(2), 3: picture.rot90(2, (1, 2)), 4: picture.transpose(1, 2)
    }.items():
        assert torch.equal(mirrored(picture, np.array([turn])), same)


@pytest.mark.parametrize("model", LEARNERS)
def test_a_run_measures_its_gate_and_the_observer_knows_it(tmp_path, model):
    store = infant.generate(tmp_path / "store", "train_preference", 10, progress=False)
    run = fit(model, store, tmp_path / "run", "smoke", steps=2, device="cpu", progress=False)
    gate = read_gate(run)
    one = load_observer(run)
    assert one.gate == gate and (gate.observer, one.name) == (model, model)
    tests = infant.generate(tmp_path / "tests", "preference", 2, progress=False)
    assert infant.score(one, tests).gate.tolist() == [gate.share] * 4
    assert np.isnan(infant.score("same_place", tests).gate).all()


@pytest.mark.parametrize("names", [("nope", "smoke"), ("transformer", "nope")])
def test_training_refuses_names_that_are_not_known(tmp_path, names):
    with pytest.raises(UsageError, match="unknown .*'nope'"):
        fit(names[0], tmp_path / "store", tmp_path / "run", names[1], progress=False)


def test_a_network_that_diverged_has_no_gate():
    class Diverged(torch.nn.Module):
        name = "diverged"
        rule = "repeat the last frame"

        def measured(self, batch):
            return batch * torch.nan, batch

        def rule_loss(self, batch):
            return batch.mean()

    with pytest.raises(ModelContractError, match="diverged, seed 3: its error is nan"):
        measure_gate(Diverged(), [torch.ones(2)], 3)


def test_what_several_seeds_see_is_drawn_once(monkeypatch):
    drawn = []
    own = change.strip_of
    monkeypatch.setattr(change, "strip_of", lambda *args, **how: drawn.append(1) or own(*args, **how))
    batch = infant.make_batch(infant.make_item("preference", 0)[0])
    seeds = [change.ChangeObserver(build("transformer", "smoke"), seed) for seed in (0, 1)]
    curves = [one.surprise(batch) for one in seeds]
    assert len(drawn) == 2 and all(np.isfinite(curve).any() for curve in curves)
