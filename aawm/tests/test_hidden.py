"""Names that begin with a dot, and `__MACOSX`, are passed over wherever a folder is read."""

import shutil
import zipfile
from pathlib import Path

import pytest

from aawm.data import generate, open_events, verify
from aawm.data.authors.raw import import_raw
from aawm.data.trials import LAYOUT, open_trials
from aawm.errors import BadData, UsageError
from aawm.evaluation.exchange import rollout_files
from aawm.evaluation.results import find_evaluations
from aawm.files import resolve, visible_files
from aawm.infant.released import released_files
from aawm.lessons.copies import LESSONS, find_lessons
from aawm.marple.configurations import read_configurations
from aawm.marple.released import trials_of
from aawm.store import verify_store
from aawm.tests.conftest import FIXTURES

NOISE = b"\x00\x05\x16\x07"  # how a Mac's `._` files begin


def litter(folder: Path) -> None:
    "What a Mac, an editor and a version control leave in a folder and in all folders within."
    for place in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        inside = list(place.iterdir())
        for name in (".DS_Store", ".git/config", "__MACOSX/.DS_Store"):
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(NOISE)
        for path in inside:
            for twin in (place / f"._{path.name}", place / "__MACOSX" / path.name):
                twin.mkdir() if path.is_dir() else twin.write_bytes(NOISE)


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    "A folder of raw trials."
    folder = tmp_path_factory.mktemp("raw")
    with zipfile.ZipFile(FIXTURES / "authors" / "raw.zip") as archive:
        archive.extractall(folder)
    return folder / "raw"


def copied(paths: list, folder: Path) -> Path:
    "Copies of files in a folder."
    folder.mkdir(parents=True)
    for path in paths:
        shutil.copy(path, folder)
    return folder


def rollouts_of(folder: Path) -> Path:
    for name in ("0.npz", "1.npz", "2.zarr/zarr.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def evaluations_of(folder: Path) -> Path:
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True)
        (folder / name / "record.json").write_text("{}")
    return folder


def pairs_of(folder: Path) -> Path:
    for place in ("feed_dog-take_shower/room_0/00000", "feed_dog-take_shower/room_1/00001"):
        (folder / place).mkdir(parents=True)
    return folder


LESSON = sorted(resolve(LESSONS).glob("0[1-2]*.ipynb"))
READERS = {  # make a folder; what is read of it
    "rollouts": (rollouts_of, lambda folder: rollout_files([folder])),
    "evaluations": (evaluations_of, find_evaluations),
    "houses": (lambda folder: copied(sorted((FIXTURES / "marple").glob("*.json")), folder), lambda folder: read_configurations([folder])),
    "pairs": (pairs_of, trials_of),
    "videos": (lambda folder: copied(sorted((FIXTURES / "infant").glob("*.json.gz")), folder), released_files),
    "lessons": (lambda folder: copied(LESSON, folder), find_lessons),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_a_folder_with_hidden_files_reads_as_without(tmp_path, name):
    make, read = READERS[name]
    (tmp_path / ".cache").mkdir()
    folder = tmp_path / ".cache" / "sent"  # a hidden folder that a user names is read
    make(folder)
    before = read(folder)
    assert before
    litter(folder)
    assert read(folder) == before


def test_raw_trials_and_stores(tmp_path, raw):
    names = sorted(path.name for path in raw.iterdir())
    litter(raw)
    assert len(visible_files(raw)) == len(names) < len(list(raw.iterdir()))
    store = import_raw(raw, tmp_path / "store", workers=1, progress=False)
    manifest = verify_store(store, LAYOUT)
    states = open_trials(store).state.values
    litter(store)
    assert verify_store(store, LAYOUT) == manifest and (open_trials(store).state.values == states).all()
    (store / "arrays.zarr" / "state" / "c.strange").touch()
    for read in (open_trials, open_events, verify):
        with pytest.raises(BadData, match="c.strange is not in the manifest"):
            read(store)


def filled_store(folder: Path, trials: int = 2) -> Path:
    return generate(folder, trials, workers=1, fidelity="planar", progress=False)


def test_a_new_folder_may_hold_hidden_files_and_nothing_else(tmp_path):
    hidden = [tmp_path / "out" / word for word in (".DS_Store", ".gitkeep", ".git/config")]
    for path in hidden:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(NOISE)
    filled_store(tmp_path / "out")
    assert visible_files(tmp_path / "out") and all(path.read_bytes() == NOISE for path in hidden), "what was there is kept"
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes.txt").touch()
    with pytest.raises(UsageError):
        filled_store(tmp_path / "other")
