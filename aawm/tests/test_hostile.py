"""One hostile file of each format: it is refused or read as data, and nothing in it runs."""

import gzip
import hashlib
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import zarr
from safetensors.torch import load, save

from aawm.readers import read_npz, read_parquet
from aawm.errors import BadData, Refused
from aawm.files import resolve, sha256
from aawm.infant.released import read_file
from aawm.models import build, load_weights
from aawm.models.base import read_state_dict
from aawm.models.weights import SHIPPED, read_card, read_tensors, ship_weights, tensor_digest, weights_record
from aawm.on_demand import use_code
from aawm.runs.cluster import slurm_settings
from aawm.runs.manifest import read_paper
from aawm.store import open_array
from aawm.training import changed_source, load_run
from aawm.training.loop import read_checkpoint


class Payload:
    "Writes a marker when it is unpickled."

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


@pytest.fixture
def marker(tmp_path):
    "A folder that only code from a file makes; no test may find it."
    place = tmp_path / "code-ran"
    yield place
    assert not place.exists(), "code from a file ran"


def test_zarr_of_format_2_with_a_codec_that_unpickles(tmp_path, marker):
    filters = [{"id": "vlen-utf8"}, {"id": "pickle"}]
    array = {
        "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|O", "compressor": None, "fill_value": "",
        "order": "C", "filters": filters
    }
    folder = tmp_path / "rollouts"
    folder.mkdir()
    (folder / ".zarray").write_text(json.dumps(array))
    (folder / "0").write_bytes(pickle.dumps(Payload(marker)))
    with pytest.raises(Refused, match="zarr format 2"):
        open_array(folder)


BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
HOSTILE_ARRAYS = {
    "a codec that unpickles": {"codecs": [BYTES, {"name": "numcodecs.pickle", "configuration": {}}]},
    "a codec for objects": {"codecs": [{"name": "vlen-utf8"}]},
    "shards": {
        "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": [BYTES]}}]
    },
    "text": {"data_type": "string", "fill_value": ""},
    "objects": {"data_type": {"name": "null_terminated_bytes", "configuration": {"length_bytes": 8}}},
    "a storage transformer": {"storage_transformers": [{"name": "mine"}]}, "format 4": {"zarr_format": 4}
}


@pytest.mark.parametrize("name", HOSTILE_ARRAYS)
def test_zarr_that_names_more_than_numbers_and_known_codecs_is_refused(tmp_path, name):
    zarr.create_array(tmp_path / "rollouts.zarr", data=np.arange(4.0))
    file = tmp_path / "rollouts.zarr" / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | HOSTILE_ARRAYS[name]))
    with pytest.raises(Refused) as fault:
        open_array(tmp_path / "rollouts.zarr")
    assert "rollouts.zarr" in str(fault.value) and "\n" not in str(fault.value)


def test_a_chunk_whose_frame_states_no_size_is_unpacked_in_a_bounded_stream(tmp_path):
    array = zarr.create_array(tmp_path / "a.zarr", data=np.arange(100.0), chunks=(100,), compressors=zarr.codecs.ZstdCodec())
    for count, fits in ((100, True), (10**6, False)):
        with pa.CompressedOutputStream(str(array.store.root / "c" / "0"), "zstd") as chunk:
            chunk.write(np.arange(float(count)).tobytes())
        if fits:
            assert np.array_equal(open_array(array.store.root)[...], np.arange(100.0))
    with pytest.raises(BadData, match="would unpack to 801 bytes, a chunk has 800"):
        open_array(array.store.root)[...]


def test_npz_with_objects(tmp_path, marker):
    np.savez(tmp_path / "rollouts.npz", rollouts=np.array([Payload(marker)], dtype=object), request=np.zeros(1))
    with pytest.raises(BadData, match="Object arrays"):
        read_npz(tmp_path / "rollouts.npz")


# weights, their cards, and the folders of runs


SIZES = {"embedding_size": 4, "recurrent_size": 4, "hidden_size": 8, "recurrent_layers": 1}
RECORD = {"model": "multistep_predictor", "variant": "corrected", "config": SIZES, "seed": 3}


@pytest.fixture
def weights(tmp_path):
    torch.manual_seed(0)
    return ship_weights(
        build("multistep_predictor", **SIZES), tmp_path / "multistep_predictor-corrected-3.safetensors",
        RECORD
    )


def write_tensors(path: Path, tensors: dict, record: dict, digest: str = "") -> None:
    "A weights file and card whose hashes are right, whatever they hold."
    text = json.dumps(record, sort_keys=True)
    path.write_bytes(save(tensors, {"record": text, "digest": digest or tensor_digest(tensors, text)}))
    card = {"file": path.name, "sha256": sha256(path), "bytes": path.stat().st_size, "scores": {}}
    path.with_suffix(".json").write_text(json.dumps(record | card))


def write_code(tmp_path: Path, marker: Path) -> Path:
    "A model's file that leaves a marker when it is imported."
    file = tmp_path / "stranger.py"
    base = "from aawm.models.multistep import MultistepPredictor\n\nclass Mine(MultistepPredictor):\n    pass\n"
    file.write_text(f"import os\nos.mkdir({str(marker)!r})\n{base}")
    return file


def test_a_weights_file_that_names_code(tmp_path, marker, weights):
    file = write_code(tmp_path, marker)
    for name in (f"{file}:Mine", "stranger:Mine"):
        write_tensors(weights, load(weights.read_bytes()), RECORD | {"model": name})
        with pytest.raises(Refused, match="--code") as fault:
            load_weights(weights)
        assert weights.name in str(fault.value) and weights_record(weights)["model"] == name


def test_a_run_folder_that_names_code(tmp_path, marker):
    file = write_code(tmp_path, marker)
    run = tmp_path / "run"
    run.mkdir()
    (run / "settings.json").write_text(json.dumps(RECORD | {"model": f"{file}:Mine", "source": "0" * 12}))
    (run / "weights.safetensors").write_bytes(save(build("multistep_predictor", **SIZES).state_dict()))
    (run / "weights.sha256").write_text(
        "".join(f"{sha256(run / name)}  {name}\n" for name in ("weights.safetensors", "settings.json"))
    )
    for read in (load_run, changed_source):
        with pytest.raises(Refused, match="--code"):
            read(run)


def test_code_that_a_user_named_runs(tmp_path, weights):
    file = write_code(tmp_path, tmp_path / "own-code-ran")
    write_tensors(weights, load(weights.read_bytes()), RECORD | {"model": f"{file}:Mine"})
    use_code([str(file)])
    assert type(load_weights(weights)).__name__ == "Mine" and (tmp_path / "own-code-ran").is_dir()


@pytest.mark.parametrize("card", ["as it was", "missing", "empty", "cut", "a list", "nested"])
def test_every_flipped_bit_of_weights_is_noticed_whatever_the_card(weights, card):
    whole = weights.read_bytes()
    file = weights.with_suffix(".json")
    if card != "as it was":
        file.write_text({"missing": "", "empty": "", "cut": "{", "a list": "[]", "nested": "[" * 10_000}[card])
    if card == "missing":
        file.unlink()
    for place in [*range(0, 40), *range(40, len(whole), 397), len(whole) - 1]:
        weights.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises((BadData, Refused)):
            load_weights(weights)
    weights.write_bytes(whole)
    if card == "as it was":
        assert load_weights(weights).seed == 3
    else:
        with pytest.raises(BadData) as fault:
            load_weights(weights)
        assert ".json" in str(fault.value) or "no card" in str(fault.value)


@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.uint8, torch.complex64])
def test_tensors_that_are_no_floating_point_numbers_are_refused(weights, kind):
    tensors = load(weights.read_bytes())
    name = next(iter(tensors))
    try:
        write_tensors(weights, tensors | {name: tensors[name].to(kind)}, RECORD)
    except KeyError:
        pytest.skip(f"this version of safetensors writes no {kind}")
    with pytest.raises(BadData, match=f"{name} is {str(kind).removeprefix('torch.')}, not float32"):
        load_weights(weights)


@pytest.mark.parametrize(
    "change",
    [{"config": SIZES | {"hidden_size": 10**9}}, {"config": SIZES | {"hidden_size": 10**30}}, {"config": {"hidden": 8}}, {"config": {"hidden_size": "8"}},
     {"config": []}, {"seed": -1}, {"seed": "0"}, {"variant": "odd"}, {"model": "no_model"}, {"model": 3}],
    ids=str,
)  # fmt: skip
def test_a_record_of_another_form_is_bad_data(weights, change):
    write_tensors(weights, load(weights.read_bytes()), RECORD | change)
    with pytest.raises(BadData) as fault:
        load_weights(weights)
    assert "\n" not in str(fault.value)


def test_a_card_of_other_weights_is_bad_data(weights):
    card = json.loads(weights.with_suffix(".json").read_text())
    weights.with_suffix(".json").write_text(json.dumps(card | {"model": "oracle"}))
    with pytest.raises(BadData, match="differ in model"):
        load_weights(weights)


def test_shipped_weights_carry_their_digest():
    for path in sorted(resolve(SHIPPED).glob("*.safetensors")):
        assert read_tensors(path) and read_card(path, weights_record(path))


# the other formats


def test_state_dicts_and_checkpoints(tmp_path, marker):
    torch.save({"weight": Payload(marker)}, tmp_path / "released.pt")
    with pytest.raises(BadData, match="cannot be read safely|can be read safely"):
        read_state_dict(tmp_path / "released.pt")
    path = tmp_path / "last.ckpt"
    torch.save({"step": 1, "weights": {}, "optimizer": {}, "best": Payload(marker)}, path)
    path.write_bytes(hashlib.sha256(path.read_bytes()).digest() + path.read_bytes())
    with pytest.raises(BadData, match="cannot be read safely"):
        read_checkpoint(tmp_path)


def test_parquet_with_a_pickled_type(tmp_path, marker):
    pickled = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Payload(marker))
    }
    schema = pa.schema(
        [pa.field("step", pa.int64(), metadata=pickled)], metadata={b"pandas": pickle.dumps(Payload(marker))}
    )
    pq.write_table(pa.table({"step": [1, 2]}, schema=schema), tmp_path / "steps.parquet")
    try:
        assert read_parquet(tmp_path / "steps.parquet").step.tolist() == [1, 2]
    except BadData as fault:
        assert "\n" not in str(fault)


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.mkdir", "!!python/object/new:os.mkdir", "!!python/name:os.mkdir", "!mine"])
def test_yaml_that_builds_objects(tmp_path, marker, tag):
    (tmp_path / "slurm.yaml").write_text(f"jobs: {tag} ['{marker}']\ncores: 1\nmemory: 1GB\n")
    for read in (slurm_settings, read_paper):
        with pytest.raises(BadData, match="slurm.yaml"):
            read(tmp_path / "slurm.yaml")


@pytest.mark.parametrize("name", ["000010loe.json", "000010loe.json.gz"])
def test_episodes_that_hold_a_pickle(tmp_path, marker, name):
    content = pickle.dumps(Payload(marker))
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(BadData, match=name):
        read_file(tmp_path / name)
