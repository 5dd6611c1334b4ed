"""Shapes and counts of the learned observers, causality, and pictures."""

import numpy as np
import torch

from aawm import infant
from aawm.infant.cloning import CloningConfig, Cloner, ImageEncoder
from aawm.infant.training import build
from aawm.infant.transformer import TransformerConfig, VideoTransformer


def count(module) -> int:
    return sum(weights.numel() for weights in module.parameters())


def few(tmp_path, names=("preference", "goal_attribution", "belief")):
    videos = [infant.make_item(name, 0)[0] for name in names]
    return infant.open_episodes(infant.write_videos(tmp_path / "few", videos, {}))


def test_published_sizes():
    config = TransformerConfig()
    assert (config.size, config.patches, config.values, config.keep * config.patches) == (84, 49, 432, 735)
    assert count(VideoTransformer()) == count(build("transformer", "paper")) == 2_425_904
    assert count(ImageEncoder()) == 229_472
    assert [layer.in_features for layer in (Cloner(CloningConfig(kind)).policy[0] for kind in ("mlp", "rnn"))] == [160, 192]


def test_a_later_sample_changes_no_earlier_prediction():
    torch.manual_seed(0)
    model = VideoTransformer(TransformerConfig(size=24, width=32, heads=4, layers=2, feed_forward=64)).eval()
    frames = torch.randint(256, (1, 6, 24, 24, 3), dtype=torch.uint8)
    sample, seen = torch.arange(6)[None], torch.ones(1, 6, dtype=torch.bool)
    for t in range(1, 6):
        changed = frames.clone()
        changed[:, t] = 255 - changed[:, t]
        with torch.no_grad():
            memory = model.encode(frames, sample, seen)
            one, other = (model.decode(memory, shown, sample) for shown in (frames, changed))
        assert torch.equal(one[:, :t], other[:, :t]) and not torch.equal(one[:, t], other[:, t])


def test_pictures_show_what_states_say(tmp_path):
    episodes = few(tmp_path)
    assert infant.frames(episodes.isel(episode=0), 42).shape == (9, int(episodes["length"][0].max()), 42, 42, 3)
    assert np.array_equal(infant.frames(infant.make_item("preference", 0)[0], 42), infant.frames(episodes.isel(episode=0), 42))
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
