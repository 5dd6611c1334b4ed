"Training: killed anywhere it ends with the same weights, and a run folder that is not what was written is refused."

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
import xarray

from aawm.errors import BadData, Interrupted, Refused, UsageError
from aawm.files import folder_lock, write_json
from aawm.training import fit, load_run, loop, run_settings
from aawm.training.folder import claim_folder
from aawm.training.loop import checkpoint_step, read_log
from aawm.tests.conftest import ROOT

SMALL = dict(
    steps=40, batch=4, window=30, context=10, checkpoint_every=10, validate_every=20, log_every=5,
    validation_windows=8
)
SCRIPT = """
import os, signal, sys
from pathlib import Path
from aawm.tests.training.test_training import SMALL, noise
from aawm.training import fit, loop
whole, asked = loop.checked_loss, []
def deadly(*given):  # killed in the middle of a step, some steps after the first checkpoint
    asked.append(given)
    if len(asked) == 14:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(*given)
loop.checked_loss = deadly
fit(sys.argv[1], noise(), Path(sys.argv[2]), training_settings=SMALL, device="cpu", progress=False)
"""


def noise(trials=24, hash="of noise"):
    states = np.random.default_rng(0).normal(size=(trials, 300, 5, 7)).astype(np.float32).cumsum(1) / 20
    split = np.array(["train"] * (trials - 6) + ["validation"] * 6)
    return xarray.Dataset(
        {"state": (("trial", "step", "entity", "feature"), states), "split": ("trial", split)},
        attrs={"data_hash": hash}
    )


def run(name, folder, settings=SMALL, trials=None, **more):
    return fit(
        name, noise() if trials is None else trials, folder, training_settings=settings, device="cpu",
        progress=False, **more
    )


def weights(folder):
    return {key: value for key, value in load_run(folder).state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", ["rssm_discrete"])
def test_killed_and_gone_on_gives_the_weights_of_an_undisturbed_run(name, tmp_path):
    run(name, tmp_path / "whole")
    folder = tmp_path / "killed"
    done = subprocess.run([sys.executable, "-c", SCRIPT, name, str(folder)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert not (folder / "weights.safetensors").exists() and checkpoint_step(folder) == 10
    with pytest.raises(BadData, match="not trained to its end"):
        load_run(folder)
    run(name, folder)
    assert (folder / "weights.safetensors").read_bytes() == (
        tmp_path / "whole" / "weights.safetensors"
    ).read_bytes()
    assert not (folder / "last.ckpt").exists()
    logs = [
        [(row["step"], row["train_loss"], row["validation_loss"]) for row in read_log(place)]
        for place in (folder, tmp_path / "whole")
    ]
    assert [row[0] for row in logs[0]] == [row[0] for row in logs[1]] and logs[0][-4:] == logs[1][-4:]


def test_a_run_ends_with_its_folder_in_order(tmp_path):
    folder = run("oracle", tmp_path / "with space and ümlaut", model_settings={"recurrent_size": 16})
    assert sorted(path.name for path in folder.iterdir()) == [
        "log.csv", "settings.json", "weights.safetensors"
    ]
    settings = run_settings(folder)
    assert settings["config"]["recurrent_size"] == 16 and settings["data_hash"] == "of noise" and settings[
        "privileged"
    ] == ["end_state"]
    rows = read_log(folder)
    assert [int(row["step"]) for row in rows] == list(range(5, 41, 5))
    assert [int(row["step"]) for row in rows if row["validation_loss"]] == [20, 40]
    before = (folder / "weights.safetensors").stat().st_mtime_ns
    run("oracle", folder, model_settings={"recurrent_size": 16})
    assert (folder / "weights.safetensors").stat().st_mtime_ns == before, "a finished run is left alone"


def test_the_seed_alone_makes_runs_differ(tmp_path):
    first, again, other = (
        run("multistep_predictor", tmp_path / name, {**SMALL, "steps": 6}, seed=seed)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert same(weights(first), weights(again)) and not same(weights(first), weights(other))


def test_training_does_not_touch_the_random_state_or_the_threads_of_the_caller(tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run("multistep_predictor", tmp_path, {**SMALL, "steps": 2})
    threads = torch.get_num_threads()
    torch.set_num_threads(before)
    assert torch.equal(torch.rand(3), expected) and threads == 2


@pytest.mark.parametrize(
    "change, shown",
    [
        (dict(seed=1), "seed: 0 -> 1"),
        (dict(settings={**SMALL, "learning_rate": 0.01}), "training.learning_rate: 0.001 -> 0.01"),
        (dict(trials=noise(hash="other")), "data_hash: of noise -> other"),
        (dict(variant="published"), "variant: corrected -> published"),
    ],
)
def test_going_on_as_another_run_is_refused_and_the_difference_shown(change, shown, tmp_path):
    run("multistep_predictor", tmp_path, {**SMALL, "steps": 40} | {"steps": 2})
    settings = {**change.pop("settings", SMALL), "steps": 2}
    with pytest.raises(UsageError, match="holds another run") as refused:
        run("multistep_predictor", tmp_path, settings, **change)
    assert shown in str(refused.value)


def test_a_setting_that_came_later_counts_as_its_default(tmp_path):
    run("multistep_predictor", tmp_path, {**SMALL, "steps": 2})
    known = run_settings(tmp_path)
    older = {
        **known,
        "training": {name: value for name, value in known["training"].items() if name != "at_pickups"}
    }
    (tmp_path / "older").mkdir()
    write_json(tmp_path / "older" / "settings.json", older)
    claim_folder(tmp_path / "older", known)  # the same run
    with pytest.raises(UsageError, match="training.at_pickups: 0.0 -> 0.5"):
        claim_folder(tmp_path / "older", {**known, "training": {**known["training"], "at_pickups": 0.5}})


def broken(folder, monkeypatch):
    "A run cut short after its checkpoint at step 10."
    whole = loop.training_step

    def stops(module, optimizer, batch, step, *rest):
        if step == 13:
            raise KeyboardInterrupt
        return whole(module, optimizer, batch, step, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(loop, "training_step", stops)
        with pytest.raises(
            Interrupted, match="checkpoint is at step 10 of 40: run the same command to go on"
        ):
            run("multistep_predictor", folder)
    return folder


def test_an_interrupt_says_how_to_go_on_and_leaves_the_signal_as_it_was(tmp_path, monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    broken(tmp_path / "stopped", monkeypatch)
    assert signal.getsignal(signal.SIGINT) is before
    run("multistep_predictor", tmp_path / "stopped")
    assert same(weights(tmp_path / "stopped"), weights(run("multistep_predictor", tmp_path / "whole")))


def test_every_flipped_bit_and_every_cut_in_a_checkpoint_is_caught(tmp_path, monkeypatch):
    path = broken(tmp_path, monkeypatch) / "last.ckpt"
    whole = path.read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole), 20):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(BadData, match="last.ckpt is damaged"):
            run("multistep_predictor", tmp_path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadData, match="last.ckpt is damaged"):
        run("multistep_predictor", tmp_path)
    path.write_bytes(whole)
    run("multistep_predictor", tmp_path)


def test_every_flipped_bit_in_weights_or_settings_is_caught(tmp_path):
    run("multistep_predictor", tmp_path, {**SMALL, "steps": 2})
    for name in ("weights.safetensors", "settings.json"):
        whole = (tmp_path / name).read_bytes()
        for place in np.random.default_rng(1).integers(0, len(whole), 10):
            damaged = bytearray(whole)
            damaged[place] ^= 1
            (tmp_path / name).write_bytes(damaged)
            with pytest.raises((BadData, UsageError)):
                load_run(tmp_path)
        (tmp_path / name).write_bytes(whole)
    load_run(tmp_path)
    (tmp_path / "weights.safetensors").unlink()
    with pytest.raises(BadData, match="not trained to its end"):
        load_run(tmp_path)


def test_two_runs_do_not_train_into_one_folder(tmp_path):
    with folder_lock(tmp_path):
        with pytest.raises(Refused, match=f"process {os.getpid()} "):
            run("multistep_predictor", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_another_shape_is_refused_and_lists_what_differs(tmp_path):
    def parts(width):
        module = torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Linear(width, 1))
        optimizer = torch.optim.AdamW(module.parameters(), 1e-3)
        module(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        return module, optimizer

    narrow = parts(4)
    wide = parts(5)
    loop.save_checkpoint(tmp_path, 7, *narrow)
    with pytest.raises(
        BadData, match=r"last.ckpt does not fit Sequential: 0.weight is \[4, 3\], not \[5, 3\]; 0.bias"
    ):
        loop.resume(tmp_path, *wide)
    loop.save_checkpoint(tmp_path, 7, wide[0], narrow[1])  # the optimiser alone is of another shape
    with pytest.raises(
        BadData, match=r"the optimiser's state does not fit: exp_avg of 0.weight is \[4, 3\], not \[5, 3\]"
    ):
        loop.resume(tmp_path, *wide)
    loop.save_checkpoint(tmp_path, 7, *narrow)
    assert loop.resume(tmp_path, *narrow) == (7, [])
