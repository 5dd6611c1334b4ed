"""Learned observers: what they read and what they must not, how they are trained, and pictures."""

import dataclasses

import numpy as np
import pytest
import torch

from aawm import infant
from aawm.errors import UsageError
from aawm.infant.episodes import actor
from aawm.infant.objects import FRONTS, ObjectConfig, ObjectObserver, ObjectTransformer, examples
from aawm.infant.regions import regions_of_pictures, regions_of_states
from aawm.infant.training import fit, load_observer


def few(tmp_path, names=("preference", "goal_attribution", "belief")):
    videos = [infant.make_item(name, 0)[0] for name in names]
    return infant.open_episodes(infant.write_videos(tmp_path / "few", videos, {}))


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


SMALL = ObjectConfig(width=16, heads=2, layers=1, feed_forward=32, filters=8)


@pytest.fixture(scope="module")
def pair():
    "Both videos of one item, as observers get them."
    return [infant.make_batch(video) for video in infant.make_item("preference", 0)]


@pytest.mark.parametrize("name", ["preference", "efficiency_path", "instrumental_no_barrier", "train_instrumental"])
def test_pictures_and_states_give_the_same_regions(name):
    batch = infant.make_batch(infant.make_item(name, 0)[0])
    told = regions_of_states(batch)
    seen = regions_of_pictures(batch)
    assert np.array_equal(told.walls, seen.walls) and np.array_equal(told.barrier, seen.barrier)
    places = [one.place[0, np.arange(9), :, one.mover[0]] for one in (told, seen)]
    off = np.linalg.norm(places[0] - places[1], axis=-1) * 100
    assert np.quantile(off, 0.9) < 8 and np.median(off) < 2, off


def test_what_comes_later_changes_no_earlier_surprise(pair):
    one = ObjectObserver(ObjectTransformer(SMALL))
    before = one.surprise(pair[0])[0]
    frames = np.flatnonzero(np.isfinite(before))
    state = pair[0].state.copy()
    mover = actor(pair[0])[0]
    frame = frames[2] - 1  # seen in the third step alone, and after it
    state[0, 8, frame:, mover, :2] += 3
    after = one.surprise(dataclasses.replace(pair[0], state=state))[0]
    assert np.array_equal(before[frames[:2]], after[frames[:2]]) and not np.array_equal(before[frames], after[frames])


def exchange_objects(batch):
    "A video with two objects, these exchanged in all trials of familiarisation."
    pair = np.flatnonzero(batch.kind[0] == "object")
    state = batch.state.copy()
    state[:, :8, :, pair] = batch.state[:, :8, :, pair[::-1]]
    return dataclasses.replace(batch, state=state)


def test_history_reaches_the_prediction_and_company_does_not(pair, tmp_path):
    torch.manual_seed(0)
    one = ObjectObserver(ObjectTransformer(SMALL))
    before, after = (np.nanmean(one.surprise(batch)) for batch in (pair[0], exchange_objects(pair[0])))
    assert abs(before - after) > 1e-6
    both = infant.make_batch(few(tmp_path, ("preference", "train_preference")))
    alone, together = one.surprise(both[[1]])[0], one.surprise(both)[1]
    assert np.allclose(alone, together, equal_nan=True, atol=1e-5)


def test_a_test_set_is_not_trained_on(tmp_path):
    store = infant.generate(tmp_path / "store", "preference", 2, progress=False)
    with pytest.raises(UsageError, match="holds preference, which tests; train on train_single_object, train_preference"):
        fit("state_transformer", store, tmp_path / "run", "smoke", progress=False)


def test_only_trials_of_the_same_mover_are_read():
    torch.manual_seed(0)
    one = ObjectObserver(ObjectTransformer(SMALL))
    one.name = "untrained"  # its own name, whatever it sees
    for video in infant.make_item("multi_agent", 0):
        batch = infant.make_batch(video)
        before, after = (one.curves(videos, 8) for videos in (batch, exchange_objects(batch)))
        assert np.allclose(before, after, atol=1e-5, equal_nan=True) == video.condition.startswith("new")


@pytest.mark.parametrize("front", list(FRONTS.values()))
def test_what_is_closed_in_is_out_of_reach(front):
    closed, opened = (infant.make_batch(video) for video in infant.make_item("instrumental_blocking_barrier", 0))
    for batch, free in ((closed, False), (opened, True)):
        regions = front(batch)
        none = np.zeros(1, int)
        asked = examples(regions, none, none + 8, none, np.arange(8)[None], np.ones((1, 8), bool))
        goal = batch.state[0, 8, 30, batch.kind[0].tolist().index("object"), :2] / 100 - 1
        nearest = np.linalg.norm(regions.place[0, 8, 0] - goal, axis=-1).argmin()
        assert asked["reach"][0, nearest].item() == free and asked["reach"][0][regions.mover[0, 8]]


@pytest.mark.parametrize("name, seed", [pytest.param(name, seed, marks=[pytest.mark.slow] if seed or name == "object_transformer" else []) for name in FRONTS for seed in range(3)])
def test_shipped_observers_have_learnt_and_use_history(tmp_path, name, seed):
    one = infant.pretrained(name, seed)
    told = infant.score(one, infant.generate(tmp_path / "a", "preference", 20, seed=3, progress=False))
    assert told.accuracy[(told.reduction == "mean") & (told.window == "motion")].item() >= 0.85
    batch = infant.make_batch(infant.make_item("preference", 2)[0])
    before, after = (np.nanmean(one.surprise(videos)) for videos in (batch, exchange_objects(batch)))
    assert after > before


@pytest.mark.parametrize("model", list(FRONTS))
def test_a_run_gives_the_observer_that_it_trained(tmp_path, model):
    store = infant.generate(tmp_path / "store", "train_preference", 10, progress=False)
    one, other = (load_observer(fit(model, store, tmp_path / run, "smoke", steps=2, device="cpu", progress=False)) for run in "ab")
    batch = infant.make_batch(infant.make_item("preference", 0)[0])
    assert one.name == model and np.array_equal(one.surprise(batch), other.surprise(batch), equal_nan=True)
