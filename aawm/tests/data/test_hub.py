"""Folders for dataset and model hubs: their own validator accepts them, and only whole ones are read back."""

import hashlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from aawm import cli
from aawm.data import open_trials, store_trials
from aawm.data.hub import HUB_TABLES, export_hub, import_hub
from aawm.data.lerobot import DATA_PATH, EPISODES_PATH, EVENT_NAMES, export_lerobot
from aawm.errors import BadData, UsageError
from aawm.models import build, model_class, pretrained
from aawm.models.model_cards import export_models
from aawm.models.weights import ship_weights, weights_name
from aawm.schema import COLUMNS, SCENARIOS, STEPS
from aawm.sim import simulate
from aawm.tests.conftest import ROOT


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    "A store of nine trials, and the folder written from it."
    folder = tmp_path_factory.mktemp("hub")
    store = store_trials(
        folder / "trials", [simulate(name, seed, fidelity="planar") for seed, name in enumerate(SCENARIOS)]
    )
    export_hub(store, folder / "hub", "2026-11-22")
    return folder


def test_rows_say_what_they_are(hub):
    header = yaml.safe_load((hub / "hub/README.md").read_text().split("---")[1])
    for config in header["configs"]:
        for part in config["data_files"]:
            assert list((hub / "hub").glob(part["path"])), part
    file = pq.ParquetFile(next((hub / "hub/states").glob("train-*")))
    assert file.schema_arrow.names == ["trial", "step", *COLUMNS] and file.metadata.num_rows % STEPS == 0
    assert {field.type for field in file.schema_arrow if field.name in COLUMNS}.pop() == "float"


def test_croissant_names_every_file_and_column(hub):
    told = json.loads((hub / "hub/croissant.json").read_text())
    files = {part["contentUrl"] for part in told["distribution"] if part["@type"] == "cr:FileObject"}
    assert files == {path.relative_to(hub / "hub").as_posix() for path in (hub / "hub").rglob("*.parquet")}
    for table in told["recordSet"]:
        columns = pq.ParquetFile(next((hub / "hub" / table["name"]).glob("*.parquet"))).schema_arrow.names
        assert [field["name"] for field in table["field"]] == columns
    assert [table["name"] for table in told["recordSet"]] == list(HUB_TABLES)


def test_croissants_own_validator_accepts_it(hub):
    croissant = pytest.importorskip("mlcroissant", reason="pip install --editable '.[hub]'")
    told = croissant.Dataset(jsonld=hub / "hub/croissant.json")
    assert not told.metadata.issues.errors and not told.metadata.issues.warnings, told.metadata.issues.report()
    row = next(iter(told.records("events")))
    assert {"events/trial", "events/frame"} <= set(row)


def test_load_dataset_reads_every_table(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="pip install --editable '.[hub]'")
    trials = open_trials(hub / "trials")
    sizes = {}
    for name in HUB_TABLES:
        splits = datasets.load_dataset(str(hub / "hub"), name, cache_dir=str(tmp_path))
        assert set(splits) == set(trials.split.values.astype(str))
        sizes[name] = sum(part.num_rows for part in splits.values())
    assert sizes["states"] == len(SCENARIOS) * STEPS and sizes["trials"] == len(SCENARIOS)
    assert splits["train"].column_names[:2] == ["trial", "frame"]
    card = (hub / "hub/README.md").read_text().split("---\n", 2)[2]
    code = next(line for line in card.splitlines() if line.startswith("    "))
    assert "load_dataset" in code, "the card's first code says how to load it"


def test_minaris_own_reader_opens_what_the_page_makes(hub, monkeypatch):
    reason = "pip install 'minari[hdf5]' pillow"
    minari = pytest.importorskip("minari", reason=reason)
    monkeypatch.chdir(hub)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(hub / "minari"))
    cells = json.loads((ROOT / "nbs/data/06_hub.ipynb").read_text(encoding="utf-8"))["cells"]
    page = "".join(next(cell for cell in cells if "## Minari\n" in cell["source"])["source"])
    exec(page.split("```python\n")[1].split("```")[0], {})
    made = minari.load_dataset("aawm/trials-v0")
    trials = open_trials(hub / "trials")
    assert made.total_episodes == len(SCENARIOS)
    assert np.array_equal(made[4].observations, trials.state.values[4].reshape(STEPS, len(COLUMNS)))


@pytest.fixture(scope="module")
def lerobot(hub):
    return export_lerobot(hub / "trials", hub / "lerobot")


def test_lerobots_layout_is_what_its_own_writer_makes(lerobot):
    "Fields, types and files as lerobot 0.4.4 (its format v3.0) writes them."
    info = json.loads((lerobot / "meta/info.json").read_text())
    assert set(info) == {
        "codebase_version", "robot_type", "total_episodes", "total_frames", "total_tasks", "chunks_size", "data_files_size_in_mb",
        "video_files_size_in_mb", "fps", "splits", "data_path", "video_path", "features",
    }  # fmt: skip
    schema = pq.read_schema(lerobot / DATA_PATH.format(chunk_index=0, file_index=0))
    assert {field.name: str(field.type) for field in schema} == {
        "observation.state": "fixed_size_list<element: float>[35]", "observation.events": f"fixed_size_list<element: bool>[{len(EVENT_NAMES)}]",
        "timestamp": "float", "frame_index": "int64", "episode_index": "int64", "index": "int64", "task_index": "int64",
    }  # fmt: skip
    assert set(info["features"]) == set(schema.names)
    episodes = pq.read_schema(lerobot / EPISODES_PATH)
    known = {
        "episode_index": "int64", "tasks": "list<element: string>", "length": "int64",
        "dataset_from_index": "int64", "dataset_to_index": "int64"
    }
    known |= {
        f"{place}/{kind}_index": "int64" for place in ("data", "meta/episodes") for kind in ("chunk", "file")
    }
    known |= {
        f"stats/observation.state/{name}": "list<element: double>"
        for name in ("min", "max", "mean", "std", "q01", "q50", "q99")
    }
    assert {name: str(episodes.field(name).type) for name in known} == known
    tasks = pq.read_table(lerobot / "meta/tasks.parquet").to_pandas()
    assert list(tasks.columns) == ["task_index"] and set(tasks.index) == set(SCENARIOS)
    assert sum(
        int(part.split(":")[1]) - int(part.split(":")[0]) for part in info["splits"].values()
    ) == len(SCENARIOS)


def test_lerobots_rows_are_the_trials(hub, lerobot):
    trials = open_trials(hub / "trials")
    rows = pq.read_table(lerobot / DATA_PATH.format(chunk_index=0, file_index=0)).to_pandas()
    names = pq.read_table(lerobot / EPISODES_PATH, columns=["name"])["name"].to_pylist()
    for number, name in enumerate(names):
        trial = trials.isel(trial=list(trials.name.values.astype(str)).index(name))
        part = rows[rows.episode_index == number]
        assert np.array_equal(
            np.stack(part["observation.state"].to_list()), trial.state.values.reshape(STEPS, -1)
        )
        happened = np.stack(part["observation.events"].to_list()).any(0)
        assert happened.tolist() == [
            bool(step >= 0) for step in (*trial.pickup_step.values, *trial.goal_step.values)
        ]


def test_lerobots_own_reader_opens_it(lerobot, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    reader = pytest.importorskip(
        "lerobot.datasets.lerobot_dataset",
        reason="lerobot pins an older torch; try it in an environment of its own"
    )
    dataset = reader.LeRobotDataset("aawm/trials", root=lerobot)
    assert len(dataset) == len(SCENARIOS) * STEPS and dataset[301]["observation.state"].shape == (35,)


def test_a_command_writes_either_form(hub, tmp_path):
    words = ["--store", str(hub / "trials"), "--format"]
    assert cli.run_words(["export-hub", str(tmp_path / "a"), *words, "lerobot"])[0] == 0
    assert (tmp_path / "a/trials/meta/info.json").is_file()
    code, said = cli.run_words(["export-hub", str(tmp_path / "b"), *words, "lerobott"])
    assert code == 2 and "lerobot" in said and not (tmp_path / "b").exists()


def test_what_is_not_whole_is_refused(hub, tmp_path):
    for change, said in ((lambda to: (to / "store.json").unlink(), "no store.json"), (lambda to: next(to.glob("trials/*")).unlink(), "is missing"),
                         (lambda to: (to / "store.json").write_text((to / "store.json").read_text().replace('"data_hash": "', '"data_hash": "0')), "data_hash")):  # fmt: skip
        shutil.copytree(hub / "hub", tmp_path / "copy")
        change(tmp_path / "copy")
        with pytest.raises(BadData, match=said):
            import_hub(tmp_path / "copy", tmp_path / "out")
        assert not (tmp_path / "out").exists()
        shutil.rmtree(tmp_path / "copy")
    with pytest.raises(UsageError, match="not an empty folder"):
        export_hub(hub / "trials", hub / "hub")


@pytest.mark.parametrize("field, value, said", [
    *((field, None, f"{field} is missing") for field in ("files", "data_hash", "settings", "counts", "rejected_draws")),
    ("files", {}, "files: no file of the table"), ("files", {"states/../x.parquet": ""}, "files.states/../x.parquet"),
    ("data_hash", "0" * 64, "does not hold"), ("data_hash", 3, "data_hash"), ("settings", [], "settings"),
    ("counts", {}, "counts"), ("counts", {"rejected": {}, "trials": 8}, "does not hold the trials"),
    ("rejected_draws", [3], "rejected_draws"),
])  # fmt: skip
def test_a_damaged_store_json_is_one_clear_error(hub, tmp_path, field, value, said):
    shutil.copytree(hub / "hub", tmp_path / "copy")
    known = json.loads((tmp_path / "copy/store.json").read_text())
    changed = {
        name: content for name, content in known.items() if name != field
    } | ({} if value is None else {field: value})
    (tmp_path / "copy/store.json").write_text(json.dumps(changed))
    with pytest.raises(BadData, match=said) as fault:
        import_hub(tmp_path / "copy", tmp_path / "out")
    assert "\n" not in str(fault.value) and not (tmp_path / "out").exists()


def test_imported_trials_are_not_handed_on(hub, tmp_path, capsys):
    for words in (["export-released", hub / "trials", tmp_path / "out"],
                  ["import-released", tmp_path / "out/swm_data.pkl", tmp_path / "out/swm_data_exp_info.pkl", "--out", tmp_path / "again"]):  # fmt: skip
        with pytest.raises(SystemExit) as end:
            cli.main([*map(str, words), "--no-progress"])
        assert not end.value.code, capsys.readouterr().err
    assert open_trials(tmp_path / "again").sizes["trial"] == 9
    with pytest.raises(UsageError, match="authors' licence"):
        export_hub(tmp_path / "again", tmp_path / "hub")
    assert not (tmp_path / "hub").exists()


def test_the_line_of_code_on_a_card_reads_its_own_folder(tmp_path, monkeypatch):
    for variant in ("corrected", "published"):
        small = build("multistep_delta", variant, recurrent_layers=1, recurrent_size=8, hidden_size=8)
        record = {
            "model": "multistep_delta", "variant": variant, "config": vars(small.config), "seed": 0,
            "training": {}, "privileged": []
        }
        ship_weights(small, tmp_path / "weights" / weights_name("multistep_delta", variant), record)
    made = export_models(tmp_path / "hub", tmp_path / "weights")
    abouts = [
        (folder / "README.md").read_text(encoding="utf-8").split("# multistep_delta\n\n")[1].splitlines()[0]
        for folder in made
    ]
    assert abouts == [
        model_class("multistep_delta", variant).__doc__.splitlines()[0]
        for variant in ("corrected", "published")
    ]
    assert abouts[0] != abouts[1]
    assert [folder.name for folder in made] == ["multistep_delta", "multistep_delta-published"]
    monkeypatch.chdir(tmp_path / "hub")
    for folder in made:
        lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
        code = "\n".join(line.strip() for line in lines if line.startswith(("    from aawm", "    model =")))
        exec(code, found := {})
        assert found["model"].variant == (
            folder.name.removeprefix("multistep_delta").lstrip("-") or "corrected"
        )


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Endpoint(http.server.BaseHTTPRequestHandler):
    "A hub with one repository at one commit: the files of `folder`."

    folder = None

    def answer(self, body, **headers):
        self.send_response(200)
        for name, value in {"Content-Length": len(body), "X-Repo-Commit": COMMIT, **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def missing(self, what):
        self.send_response(404)
        self.send_header("X-Error-Code", what)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        path = self.path.partition("?")[0]
        if "/aawm/delta" not in path:
            return self.missing("RepoNotFound")
        if path.startswith("/api/models/"):
            names = [{"rfilename": file.name} for file in self.folder.iterdir()]
            said = {"_id": "1", "id": "aawm/delta", "modelId": "aawm/delta", "sha": COMMIT, "siblings": names}
            if "/tree/" in path:
                said = [
                    {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": "0" * 40}
                    for file in self.folder.iterdir()
                ]
            return self.answer(json.dumps(said).encode(), Content_Type="application/json")
        file = self.folder / path.rsplit("/", 1)[1]
        if not file.is_file():
            return self.missing("EntryNotFound")
        body = file.read_bytes()
        self.answer(body, ETag=f'"{hashlib.sha256(body).hexdigest()}"')

    do_HEAD = do_GET

    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    "The address of a hub on this machine, and the folder that it shows."
    pytest.importorskip("huggingface_hub", reason="pip install --editable '.[hub]'")
    Endpoint.folder = export_models(tmp_path_factory.mktemp("models") / "hub", only=["multistep_delta"])[0]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", Endpoint.folder
    server.shutdown()


FROM_HUB = """
import torch
from aawm.errors import AawmError
from aawm.models import WorldModel, pretrained
model = pretrained("hf://aawm/delta@{commit}", seed=1)
other = WorldModel.from_pretrained("aawm/delta", revision="{commit}", seed=2)
print(model.card["seed"], other.card["seed"], type(model).__name__)
try:
    pretrained("hf://aawm/nothing@{commit}")
except AawmError as fault:
    print(fault.exit_code, fault)
"""


def test_pretrained_downloads_from_a_hub(endpoint, tmp_path):
    address, _ = endpoint
    env = os.environ | {
        "HF_ENDPOINT": address, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1",
        "NO_PROXY": "127.0.0.1"
    }
    done = subprocess.run(
        [sys.executable, "-c", FROM_HUB.format(commit=COMMIT)], env=env, capture_output=True, text=True,
        timeout=120
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr[-2000:]
    assert lines[0] == "1 2 MultistepDelta" and lines[1].startswith("5 hf://aawm/nothing could not be read")


def test_an_address_names_a_commit():
    pytest.importorskip("huggingface_hub", reason="pip install --editable '.[hub]'")
    for address in (
        "hf://aawm/delta", "hf://aawm/delta@main", f"hf://delta@{COMMIT}", f"hf://a/../b@{COMMIT}"
    ):
        with pytest.raises(UsageError, match="40 digits of a commit"):
            pretrained(address)
