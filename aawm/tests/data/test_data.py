"Trial stores: the same bytes whatever happens on the way, and no damage goes unnoticed."

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import aawm.sim
from aawm.data import (generate, open_events, open_trials, split_trials, verify, write_trials)
from aawm.data.checks import state_faults
from aawm.data.making.draw import trial_seed
from aawm.data.selections import VALIDATION_SHARE
from aawm.data.trials import LAYOUT, event_rows
from aawm.data.windows import Windows
from aawm.errors import BadData, EnvironmentProblem, Interrupted, Refused
from aawm.files import digest
from aawm.schema import SCENARIO_ROLES, SCENARIOS, frame_to_step
from aawm.tests.conftest import heed_interrupt

generating = sys.modules["aawm.data.making.generate"]
storing = sys.modules["aawm.store"]
TRIALS = 18
CHUNK = 3
SEED = 5
CHUNKS = TRIALS // CHUNK


def contents(path) -> dict:
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}


def call(path, workers=1, trials=TRIALS, seed=SEED, **options):
    return generate(path, trials, seed=seed, workers=workers, chunk=CHUNK, fidelity="planar", progress=False, **options)


def script(path, workers=2) -> str:
    options = f"seed={SEED}, workers={workers}, chunk={CHUNK}, fidelity='planar', progress=False"
    return f"from aawm.data import generate\ngenerate({str(path)!r}, {TRIALS}, {options})\n"


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    "An undisturbed store of real trials, made by one process."
    return call(tmp_path_factory.mktemp("data") / "undisturbed")


# the same bytes whatever happens


HOLD = """
import time
import aawm.store
write, kept = aawm.store.write_json, []
def write_and_hold(path, content):
    write(path, content)
    kept.extend([path] * path.name.startswith("chunk-"))
    if len(kept) == {chunks}:
        time.sleep(3600)
aawm.store.write_json = write_and_hold
"""


def start(path, chunks: int):
    "A process that generates and stops still once it has finished so many chunks; its workers go on."
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(chunks=chunks) + script(path)], stderr=subprocess.PIPE, text=True,
        preexec_fn=heed_interrupt
    )
    while len(list(path.glob("unfinished/chunk-*.json"))) < chunks:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    return process


def running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_second_run_is_refused_and_a_killed_one_goes_on_to_the_same_bytes(store, tmp_path):
    path = tmp_path / "trials"
    process = start(path, chunks=2)
    with pytest.raises(Refused, match=f"process {process.pid} "):
        call(path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers = [int(child) for child in children.read_text().split()] if children.exists() else []
    process.kill()
    process.communicate()
    first, second = path.glob("arrays.zarr/state/c.*")
    finished = first.stat().st_mtime_ns
    with pytest.raises(BadData, match="not finished"):
        open_trials(path)
    (path / "arrays.zarr/state/.half-written").write_bytes(b"0")
    # a chunk of which the record came to disk and the data did not
    second.write_bytes(second.read_bytes()[:-1])
    call(path)
    assert contents(path) == contents(store)
    assert first.stat().st_mtime_ns == finished, "the finished chunk was made again"
    assert not any(running(worker) for worker in workers), "workers outlived their parent"


def test_a_whole_store_is_left_as_it_is(store):
    times = {file: file.stat().st_mtime_ns for file in store.rglob("*")}
    call(store)
    assert times == {file: file.stat().st_mtime_ns for file in store.rglob("*")}
    with pytest.raises(Refused, match=f"trials: {TRIALS} there"):
        call(store, trials=19)


@pytest.mark.slow
def test_a_dying_worker_is_named_with_its_seed(tmp_path, monkeypatch):
    "The process that draws trial 0 ends itself, each time."
    monkeypatch.setattr(generating, "draw_trial", die)
    with pytest.raises(EnvironmentProblem, match=f"trial 0 died twice.*die.{SEED}, 0"):
        call(tmp_path / "trials", workers=2)


def die(root_seed, index, fidelity, **more):
    os._exit(9)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_twenty_kills_anywhere_and_each_rerun_gives_the_same_bytes(store, tmp_path, workers):
    "Killed after a random time: the program, the program with its workers, or one of its workers."
    draw = np.random.default_rng(workers)
    for number in range(20):
        path = tmp_path / f"killed {number}"
        process = subprocess.Popen([sys.executable, "-c", script(path, workers)], start_new_session=True, stderr=subprocess.PIPE)
        while not path.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 5))
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        victims = list(map(int, children.read_text().split())) if process.poll() is None and children.exists() else []
        with contextlib.suppress(ProcessLookupError):
            if number % 3 == 1:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                os.kill(victims[draw.integers(len(victims))] if number % 3 == 2 and victims else process.pid, signal.SIGKILL)
        process.communicate()
        subprocess.run([sys.executable, "-c", script(path, workers)], check=True, timeout=600)
        assert contents(path) == contents(store), number


# with a simulator that costs nothing


def quick(scenario, seed, fidelity):
    draw = np.random.default_rng(seed)
    states = draw.uniform(-1, 1, (1500, 5, 7)).astype(np.float32)
    states[..., 3:] /= np.linalg.norm(states[..., 3:], axis=-1, keepdims=True)
    events = pd.DataFrame({"frame": [100, 200, 300], "agent": 0, "event": ["pickup_1", "pickup_1", "goal_1"]})
    rejected = "obj1 x is beyond 7 in frame 31" if draw.random() < 0.4 else None
    return aawm.sim.RawTrial(
        scenario, seed, fidelity, states, events, SCENARIO_ROLES[scenario], ("jug", "purse", "vase"), rejected
    )


@pytest.fixture
def quick_simulator(monkeypatch):
    monkeypatch.setattr(aawm.sim, "simulate", quick)


def test_an_executor_that_loses_trials_is_an_error_and_the_rest_goes_on(quick_simulator, tmp_path, monkeypatch):
    with ThreadPoolExecutor(2) as threads:
        with monkeypatch.context() as patch:
            patch.setattr(generating, "draw_trial", lambda *a, **more: 1 / 0)
            with pytest.raises(EnvironmentProblem, match="lost trials .ZeroDivisionError.*run the same again"):
                call(tmp_path / "trials", workers=threads)
            patch.setattr(generating, "simulator_hash", iter(["ours", *["theirs"] * TRIALS]).__next__)
            with pytest.raises(EnvironmentProblem, match="has another simulator"):
                call(tmp_path / "trials", workers=threads)
        call(tmp_path / "trials", workers=threads)
    assert contents(tmp_path / "trials") == contents(call(tmp_path / "one"))


def test_rejected_trials_are_drawn_again_and_counted(quick_simulator, tmp_path):
    store = call(tmp_path / "trials")
    trials = open_trials(store)
    manifest = json.loads((store / "manifest.json").read_text())
    again = [index for index in range(TRIALS) if trials.seed.values[index] != trial_seed(SEED, index)]
    draws = manifest["rejected_draws"]
    assert again and sorted({draw["trial"] for draw in draws}) == again
    assert manifest["counts"]["rejected"] == {"obj# x is beyond # in frame #": len(draws)}
    assert all(quick(draw["scenario"], draw["seed"], "planar").rejected for draw in draws)
    for index in range(TRIALS):
        raw = quick(str(trials.scenario.values[index]), int(trials.seed[index]), "planar")
        assert raw.rejected is None and np.array_equal(trials.state[index], raw.states[::5])
        assert trials.pickup_step[index].values.tolist() == [-1, 20, -1] and trials.goal_step[index, 1] == 60
    assert verify(store)["trials"] == TRIALS


def never_yield(*arguments):
    return aawm.sim.RawTrial(*arguments, None, None, (), (), "watchdog: stuck")


def refuse(*arguments):
    raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


@pytest.mark.parametrize("simulator, said", [
    (never_yield, "trial 0 .* rejected 50 times.*watchdog: stuck"), (refuse, "cannot make what .* Connection refused"),
])
def test_a_faulty_simulator_is_an_error_and_not_one_of_writing(tmp_path, monkeypatch, simulator, said):
    monkeypatch.setattr(aawm.sim, "simulate", simulator)
    with pytest.raises(EnvironmentProblem, match=said):
        call(tmp_path / "trials")


@pytest.mark.parametrize("stage", ["create_arrays", "write_chunk", "finish_store"])
def test_a_full_disk_leaves_nothing_that_looks_whole(quick_simulator, tmp_path, monkeypatch, stage):
    original = getattr(storing, stage)
    calls = []

    def full(*arguments, **options):
        calls.append(1)
        if stage != "write_chunk" or len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(storing, stage, full)
        with pytest.raises(EnvironmentProblem, match="No space left"):
            call(tmp_path / "trials")
    with pytest.raises(BadData, match="not finished"):
        open_trials(tmp_path / "trials")
    call(tmp_path / "trials")
    assert contents(tmp_path / "trials") == contents(call(tmp_path / "other"))


# damage


@pytest.fixture
def small(tmp_path):
    "A store of made-up trials, in three chunks."
    return made_up(tmp_path / "small")


def made_up(path):
    states = np.random.default_rng(0).uniform(-1, 1, (7, 300, 5, 7)).astype(np.float32)
    states[..., 3:] /= np.linalg.norm(states[..., 3:], axis=-1, keepdims=True)
    roles = {
        "role_agent0": "gathering", "role_agent1": "static", "obj0_kind": "jug", "obj1_kind": "vase",
        "obj2_kind": "bread"
    }
    each = {"scenario": "gathering_static", **roles, "split": "train", "has_log": True}
    table = pd.DataFrame({"name": [f"t{i}" for i in range(7)], "seed": range(7)}).assign(**each)
    log = event_rows(pd.DataFrame({"frame": [31, 96], "agent": 0, "event": ["pickup_1", "goal_1"]}), trial=2)
    return write_trials(path, states, table, log, {}, chunk=3)


def read_everything(store):
    trials = open_trials(store)
    for name in ("state", "pickup_step", "goal_step"):
        trials[name].values
    return open_events(store)


def test_every_kind_of_damage_to_every_file_is_named(small):
    random = np.random.default_rng(0)
    for name, whole in contents(small).items():
        file = small / name
        flipped = [bytearray(whole) for _ in range(8)]
        for bit, damage in enumerate(flipped):
            damage[random.integers(len(whole))] ^= 1 << bit
        for damage in (*flipped, whole[: int(random.integers(len(whole)))], b"", None):
            file.unlink() if damage is None else file.write_bytes(damage)
            for check in (read_everything, verify):
                with pytest.raises(BadData, match=file.name.replace(".", r"\.")):
                    check(small)
        file.write_bytes(whole)
    assert len(read_everything(small)) == 2 and verify(small)["trials"] == 7


@pytest.mark.parametrize(
    "name", ["trials.parquet", "events.parquet", "arrays.zarr/zarr.json", "arrays.zarr/state/c.0.0.0.0"]
)
def test_a_file_that_the_manifest_leaves_out_is_named(small, name):
    manifest = json.loads((small / "manifest.json").read_text())
    del manifest["checksum"], manifest["files"][name]
    (small / name).unlink()
    (small / "manifest.json").write_text(json.dumps(manifest | {"checksum": digest(manifest)}))
    for check in (read_everything, verify):
        with pytest.raises(BadData, match=re.escape(name)):
            check(small)


def test_a_newer_format_says_who_wrote_it_and_who_reads_it(small):
    manifest = json.loads((small / "manifest.json").read_text())
    manifest |= {"format_version": 2, "written_by": "aawm 9.1"}
    del manifest["checksum"]
    (small / "manifest.json").write_text(json.dumps(manifest | {"checksum": digest(manifest)}))
    with pytest.raises(BadData, match=r"format 2, written by aawm 9\.1; aawm .* reads formats up to 1"):
        open_trials(small)


# reading


def some(size):
    "Slices that hold something: xarray itself fails on lazy arrays where a backward slice is empty."
    return st.slices(size).filter(lambda part: len(range(*part.indices(size))))


index = st.one_of(st.integers(-7, 6), some(7), st.lists(st.integers(-7, 6), min_size=1, max_size=9))


@settings(max_examples=25, deadline=None)
@given(index, some(300), st.one_of(st.integers(0, 4), st.lists(st.integers(0, 4), min_size=1, unique=True)))
def test_reading_a_part_is_reading_all_and_taking_it(tmp_path_factory, trial, step, entity):
    store = tmp_path_factory.getbasetemp() / "parts"
    store = store if store.exists() else made_up(store)
    whole = open_trials(store).state.load()
    part = open_trials(store).state.isel(trial=trial, step=step, entity=entity)
    assert np.array_equal(part.values, whole.isel(trial=trial, step=step, entity=entity).values)


def test_the_dataset_is_as_described(store):
    trials = open_trials(store)
    events = open_events(store)
    assert trials.pickup_step.dtype == trials.goal_step.dtype == trials.seed.dtype == np.int64
    assert trials.has_log.dtype == bool and len(set(trials.name.values)) == TRIALS
    assert (events.step == frame_to_step(events.frame)).all()
    for kind in ("pickup", "goal"):
        first = events[events.event.str.startswith(f"{kind}_")].groupby(["trial", "object"]).step.min()
        steps = trials[f"{kind}_step"].values
        found = {(trial, k): steps[trial, k] for trial, k in np.argwhere(steps >= 0).tolist()}
        assert found == first.to_dict() and found
    assert verify(store)["data_hash"] == trials.attrs["data_hash"]
    assert not state_faults(trials.state)


# the split


@given(st.lists(st.sampled_from(SCENARIOS), min_size=1, max_size=200), st.integers(0, 2**32), st.data())
def test_split(scenario, seed, data):
    scenario = np.array(scenario)
    has_log = np.array(data.draw(st.lists(st.booleans(), min_size=len(scenario), max_size=len(scenario))))
    split = split_trials(scenario, seed, has_log)
    kept = split == "validation"
    assert set(split) <= {"train", "validation"} and not kept[~has_log].any()
    assert kept.sum() == round(VALIDATION_SHARE * has_log.sum())
    for name in set(scenario):
        assert abs(kept[scenario == name].sum() - VALIDATION_SHARE * has_log[scenario == name].sum()) < 1 + 1e-6
    assert np.array_equal(split, split_trials(scenario, seed, has_log))


# windows


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_windows_are_the_same_on_a_gpu():
    states = torch.randn(50, 300, 35)
    here, there = (Windows(part, batch=16, seed=3, symmetries="mirrored") for part in (states, states.cuda()))
    for step in (0, 2, 11):
        one = here.batch(step)
        other = there.batch(step)
        assert all(value.is_cuda and torch.equal(one[name], value.cpu()) for name, value in other.items())


def test_a_small_store_that_is_stopped_keeps_its_full_chunks_of_25(quick_simulator, tmp_path, monkeypatch):
    accepted = []
    options = {"seed": SEED, "workers": 1, "progress": False}

    def counted(scenario, seed, fidelity):
        if len(accepted) == 55:
            raise KeyboardInterrupt
        raw = quick(scenario, seed, fidelity)
        accepted.extend([seed] * (raw.rejected is None))
        return raw

    with monkeypatch.context() as patch:
        patch.setattr(aawm.sim, "simulate", counted)
        with pytest.raises(Interrupted, match="stopped with 50 of 60 trials kept; the same call goes on"):
            generate(tmp_path / "trials", 60, **options)
        kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "trials").glob("arrays.zarr/state/c.[01].*")}
        accepted.clear()
        generate(tmp_path / "trials", 60, **options)
    assert len(accepted) == 10 and kept == {file: file.stat().st_mtime_ns for file in kept} != {}
    assert contents(tmp_path / "trials") == contents(generate(tmp_path / "other", 60, **options))
    assert [LAYOUT.chunk_for(count) for count in (999, 1000)] == [25, 250]
