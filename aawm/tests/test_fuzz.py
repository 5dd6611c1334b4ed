"""A seeded fuzzer: 500 damaged files over all readers, at night 2,000, end in a value or in one line, never in a traceback and never without end."""

import contextlib
import copy
import gzip
import io
import json
import random
import shutil
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load, save

from aawm.data import generate
from aawm.data.authors.raw import read_raw_trial
from aawm.data.trials import LAYOUT
from aawm.errors import AawmError, BadData
from aawm.evaluation.exchange import read_arrays, score_files, write_requests
from aawm.evaluation.results import (evaluate, find_evaluations, main_variant, read_evaluation, save as save_evaluation)
from aawm.evaluation.worlds import CopyLast
from aawm.evaluation.tasks import Protocol
from aawm.files import digest, sha256
from aawm.infant.released import import_released
from aawm.marple.configurations import read_configuration_file
from aawm.marple.released import read_action, read_start, trials_of
from aawm.models import build, load_released, load_weights
from aawm.models.weights import ship_weights, tensor_digest, write_card
from aawm.runs.cluster import slurm_settings
from aawm.runs.manifest import read_paper
from aawm.store import open_store
from aawm.training import load_run, run_settings
from aawm.training.loop import Log
from aawm.tests.conftest import FIXTURES, ROOT

MUTATIONS = 2000
FEW = 100  # by day
LONGEST = 20  # s of processor time that one file may take; they take milliseconds
SIZES = {"embedding_size": 4, "recurrent_size": 4, "hidden_size": 8, "recurrent_layers": 1}
RECORD = {
    "model": "multistep_predictor", "variant": "corrected", "config": SIZES, "seed": 3,
    "training": {"steps": 1}, "data_hash": "a" * 64
}


def deep(levels: int) -> list:
    inner = []
    for _ in range(levels):
        inner = [inner]
    return inner


ODD = [
    None, True, -1, 0, 1.5, 10**30, -(2**63), 1e308, float("nan"), float("inf"), "", "x", "../../x",
    "\u202e\n|", "a" * 3000, [], {}, [[]], [None], {"": None}, [1, "a"], deep(80)
]


def places(content: object, here: tuple = ()) -> list:
    "Where the values of nested content are."
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [one for key, value in items for one in [(*here, key), *places(value, (*here, key))]]


def change_content(content: object, draw: random.Random) -> object:
    "Nested content with one to three values changed, removed, repeated or put elsewhere."
    content = copy.deepcopy(content)
    for _ in range(draw.randint(1, 3)):
        all_places = places(content)
        if not all_places:
            return draw.choice(ODD)
        *path, last = draw.choice(all_places)
        parent = content
        for key in path:
            parent = parent[key]
        what = draw.randrange(5)
        if what <= 2:
            parent[last] = copy.deepcopy(draw.choice(ODD))
        elif what == 3:
            del parent[last]
        elif isinstance(parent, list):
            parent.append(copy.deepcopy(parent[last]))
        else:
            parent[draw.choice(["", "extra", str(last).upper()])] = parent.pop(last)
    return content


def change_bytes(data: bytes, draw: random.Random) -> bytes:
    "Bytes cut, flipped, removed, repeated or put in."
    data = bytearray(data)
    at = draw.randrange(max(len(data), 1))
    what = draw.randrange(7)
    if what == 0:
        return bytes(data[:at])
    if what == 1 and data:
        data[at] ^= 1 << draw.randrange(8)
    elif what == 2:
        del data[at : at + draw.randint(1, 40)]
    elif what == 3:
        data[at:at] = data[at : at + draw.randint(1, 40)]
    elif what == 4:
        data[at:at] = draw.choice(
            [
                b"\x00", b"\xff\xfe", b"[" * 3000, b"{", b'"', b"9" * 5000, b"\xef\xbb\xbf", b"&a ", b"*a ",
                b"NaN", b"1e999", b"\n"
            ]
        )
    elif what == 5:
        return draw.choice(
            [
                b"", b"[]", b"{}", b"null", b"[" * 100_000, b'{"a":' * 100_000,
                b"\x1f\x8b\x08" + b"\x00" * 30, b"\x80\x04."
            ]
        )
    else:
        return b"\xef\xbb\xbf" + bytes(data)
    return bytes(data)


@contextlib.contextmanager
def limited(seconds: int):
    "A file that takes longer is a fault of its own."

    def stop(*_):
        raise TimeoutError("a file without end")

    before = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(600)  # a guard against waiting for ever, as for a pipe
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


FORMS = {".json": (json.loads, json.dumps), ".yaml": (yaml.safe_load, yaml.safe_dump)}  # ending -> load, dump


class Reader:
    "Something that reads a file: `write` makes the file from content, by its ending if it is not given; `read` reads it."

    def __init__(self, file: Path, read, content: object = None, write=None):
        self.file = file
        self.read = read
        self.whole = file.read_bytes()
        load, dump = FORMS.get(file.suffix, (lambda whole: None, json.dumps))
        self.content = content or load(self.whole)
        self.write = write or (lambda value: file.write_text(dump(value)))

    def outcome(self, draw: random.Random) -> str:
        "What one mutation ends in: `read`, `refused`, or the name of what reached the user."
        try:
            if self.content is not None and draw.random() < 0.6:
                self.write(change_content(self.content, draw))
            else:
                self.file.write_bytes(change_bytes(self.whole, draw))
            with limited(LONGEST):
                self.read()
            return "read"
        except AawmError as fault:
            return ("refused" if "\n" not in str(fault) else f"{type(fault).__name__} of several lines: {fault}")
        except Exception as fault:
            return f"{type(fault).__name__}: {fault}"[:200]
        finally:
            self.file.write_bytes(self.whole)


def weights_reader(folder: Path, part: str) -> Reader:
    "A weights file: its card, its record, or its bytes."
    torch.manual_seed(0)
    path = ship_weights(build("multistep_predictor", **SIZES), folder / f"{part}.safetensors", RECORD)
    write_card(path, {"strict": {"recall": 0.5}})
    card = json.loads(path.with_suffix(".json").read_text())
    tensors = load(path.read_bytes())

    def write_record(record):
        text = json.dumps(record)
        path.write_bytes(save(tensors, {"record": text, "digest": tensor_digest(tensors, text)}))
        path.with_suffix(".json").write_text(
            json.dumps(card | {"sha256": sha256(path)} | (record if isinstance(record, dict) else {}))
        )

    def read_and_restore():
        try:
            load_weights(path)
        finally:
            path.with_suffix(".json").write_text(json.dumps(card))

    if part == "card":
        return Reader(path.with_suffix(".json"), lambda: load_weights(path))
    return Reader(path, read_and_restore, RECORD, write_record)


def run_reader(folder: Path, name: str) -> Reader:
    "A training run: its settings, resealed, or its log."
    run = folder / f"run-{name}"
    run.mkdir()
    (run / "settings.json").write_text(json.dumps(RECORD))
    (run / "weights.safetensors").write_bytes(save(build("multistep_predictor", **SIZES).state_dict()))
    (run / "log.csv").write_text("step,train_loss,validation_loss,seconds\n1,0.5,0.5,1.0\n2,0.4,,2.0\n")

    def seal():
        (run / "weights.sha256").write_text(
            "".join(f"{sha256(run / one)}  {one}\n" for one in ("weights.safetensors", "settings.json"))
        )

    seal()
    if name == "log":
        return Reader(run / "log.csv", lambda: Log(run, first=5))
    if name == "hashes":
        return Reader(run / "weights.sha256", lambda: load_run(run))

    def read():
        seal()
        run_settings(run)
        load_run(run)

    return Reader(run / "settings.json", read)


def manifest_reader(store: Path) -> Reader:
    "A store whose manifest was changed and sealed anew."
    file = store / "manifest.json"

    def write(value):
        if isinstance(value, dict):
            value.pop("checksum", None)
            value["checksum"] = digest(value)
        file.write_text(json.dumps(value))

    return Reader(file, lambda: open_store(store, LAYOUT).load(), write=write)


def zarr_reader(store: Path) -> Reader:
    "A store whose description of an array was changed, and all sealed anew."
    manifest = store / "manifest.json"
    file = store / "arrays.zarr/state/zarr.json"
    content = json.loads(manifest.read_text())

    def read():
        name = "arrays.zarr/state/zarr.json"
        content["files"][name] = {"bytes": file.stat().st_size, "sha256": sha256(file)}
        content.pop("checksum", None)
        manifest.write_text(json.dumps(content | {"checksum": digest(content)}))
        open_store(store, LAYOUT).load()

    return Reader(file, read)


def exchange_reader(folder: Path, store: Path, about: bool) -> Reader:
    "A file of requests: what it says of itself, or its bytes."
    file = write_requests(store, folder / f"requests-{about}.npz", ["move"], cap=2)[0]
    arrays, said = read_arrays(file, ("states",))

    def write(value):
        buffer = io.BytesIO()
        np.savez(buffer, about=np.array(json.dumps(value)), **arrays)
        file.write_bytes(buffer.getvalue())

    return Reader(file, lambda: score_files([], file, store), said if about else None, write)


def infant_reader(folder: Path, name: str) -> Reader:
    "Two released videos: the text of one, its compressed bytes, or the labels beside them."
    place = folder / f"infant-{name}"
    place.mkdir()
    ending = "json.gz" if name == "gz" else "json"
    for stem in ("000010loe", "000010lou"):
        trials = json.loads(gzip.decompress((FIXTURES / f"infant/{stem}.json.gz").read_bytes()))
        text = json.dumps([frames[:2] for frames in trials]).encode()
        (place / f"{stem}.{ending}").write_bytes(gzip.compress(text, mtime=0) if name == "gz" else text)
    cast = [{"name": "x", "kind": "agent", "shape": "cone", "half_size": 10, "color": [1, 2, 3]}]
    if name == "labels":
        labels = {"000010loe": {"facts": ["a", "E", "e"], "cast": cast, "seed": 1, "branch": 0}}
        (place / "labels.json").write_text(json.dumps(labels))

    def read():
        shutil.rmtree(folder / "episodes", ignore_errors=True)
        import_released(place, folder / "episodes")

    return Reader(place / ("labels.json" if name == "labels" else f"000010loe.{ending}"), read)


def raw_reader(folder: Path, name: str) -> Reader:
    "One raw trial: one of its three files."
    place = folder / name / "random_gathering_000000"
    shutil.copytree(ROOT / "data/sample/random_gathering_000000", place)

    def read():
        if fault := read_raw_trial(place).get("bad"):
            raise BadData(fault)

    return Reader(place / name, read)


def copied_reader(folder: Path, source: Path, read) -> Reader:
    "A settings file."
    file = folder / source.name
    shutil.copy(source, file)
    return Reader(file, lambda: read(file))


def record_reader(folder: Path, store: Path) -> Reader:
    "The record of an evaluation."
    place = save_evaluation(
        evaluate(
            CopyLast(), store, Protocol(tasks=["move"], split=None, cap=2), device="cpu", progress=False
        ),
        folder / "evaluation"
    )
    return Reader(place / "record.json", lambda: (find_evaluations(place), main_variant(place), read_evaluation(place)))


def released_pair_readers(folder: Path) -> dict:  # name -> `Reader`
    "A state, an action and the list of a released pair of runs."
    place = folder / "released"
    shutil.unpack_archive(FIXTURES / "marple" / "written.tar.xz", place, filter="data")
    readers = {"experiments": lambda: trials_of(place, place / "experiments.json")}
    files = {"experiments": place / "experiments.json"}
    for name, read in (("states", read_start), ("action", read_action)):
        files[name] = sorted(place.glob(f"*/*/*/*/00000_{name}.json"))[0]
        readers[name] = lambda read=read, name=name: read(files[name])
    return {f"marple {name}": Reader(files[name], read) for name, read in readers.items()}



def readers_in(folder: Path) -> dict:  # name -> `Reader`
    "Every reader with a whole file of its own."
    stores = [folder / f"trials{number}" for number in range(3)]
    generate(stores[0], 3, workers=1, fidelity="planar", progress=False)
    for copied in stores[1:]:
        shutil.copytree(stores[0], copied)
    configuration = next((FIXTURES / "marple").glob("init_config_*.json"))
    load_settings = lambda file: load_released("multistep_delta", FIXTURES / "parity/multistep_delta.pt", file)
    return {
        "card": weights_reader(folder, "card"), "weights": weights_reader(folder, "weights"),
        "run settings": run_reader(folder, "settings"), "run hashes": run_reader(folder, "hashes"),
        "run log": run_reader(folder, "log"), "store manifest": manifest_reader(stores[0]),
        "zarr description": zarr_reader(stores[1]),
        "requests about": exchange_reader(folder, stores[2], True), "requests npz": exchange_reader(folder, stores[2], False),
        "evaluation record": record_reader(folder, stores[2]),
        "infant json": infant_reader(folder, "json"), "infant gz": infant_reader(folder, "gz"),
        "infant labels": infant_reader(folder, "labels"),
        "marple configuration": copied_reader(folder, configuration, read_configuration_file),
        "raw events": raw_reader(folder, "event_log.csv"),
        "raw observations": raw_reader(folder, "trial_obs.csv"),
        "released settings": copied_reader(folder, FIXTURES / "parity/multistep_delta.json", load_settings),
        "cluster": copied_reader(folder, ROOT / "nbs/pipeline/slurm.yaml", slurm_settings),
        "paper": copied_reader(folder, ROOT / "nbs/paper/paper.yaml", read_paper),
        **released_pair_readers(folder)
    }


def fuzz(folder: Path, mutations: int = MUTATIONS, seed: int = 0) -> dict:  # reader -> Counter of outcomes
    "Damage each reader's file over and over."
    readers = readers_in(folder)
    outcomes = {name: Counter() for name in readers}
    for place in range(mutations):
        name = list(readers)[place % len(readers)]
        outcomes[name][readers[name].outcome(random.Random(f"{seed} {place}"))] += 1
    return outcomes


@pytest.mark.parametrize("mutations", [FEW, pytest.param(MUTATIONS, marks=pytest.mark.slow)])
def test_damaged_files_end_in_a_value_or_in_one_line(tmp_path, mutations):
    outcomes = fuzz(tmp_path, mutations)
    faults = [
        f"{name}: {number} of {outcome}"
        for name, counts in outcomes.items()
        for outcome, number in counts.items()
        if outcome not in ("read", "refused")
    ]
    assert not faults, "\n".join(faults)
    assert sum(counts["refused"] for counts in outcomes.values()) > mutations // 2, "most damage is noticed"
