"""Released files: real ones, every trap, faults in one line, and all kinds of things."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from aawm import infant
from aawm.errors import BadData, UsageError
from aawm.infant.episodes import episode_rows
from aawm.infant.released import UNNUMBERED, read_file, read_released, released_files
from aawm.infant.stage import STILL_AFTER, STILL_BEFORE
from aawm.tests.conftest import FIXTURES, few
from aawm.tests.infant.files import content_of, write_files

REAL = sorted((FIXTURES / "infant").glob("*.json.gz"))


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    return infant.open_episodes(
        infant.import_released(REAL, tmp_path_factory.mktemp("real") / "store")[0]
    ).load()


def test_real_files_are_as_our_displays(real):
    assert real["item"].values.tolist() == [10, 10, 11, 11] and set(real["set"].values) == {"preference"}
    assert real["outcome"].values.tolist() == ["E", "U"] * 2
    for episode in range(4):
        for trial in range(9):
            count = int(real["length"][episode, trial])
            track = real["state"].values[episode, trial, :count, 0, :2].astype(int)
            moved = np.abs(np.diff(track, axis=0)).max(1)
            assert moved.max() == 2 and not moved[: STILL_BEFORE - 1].any() and moved[STILL_BEFORE - 1] > 0
            assert not moved[-STILL_AFTER:].any() and moved[-STILL_AFTER - 1] > 0
    histories = real["state"].values[:, :8]
    assert np.array_equal(histories[0], histories[1]) and not np.array_equal(histories[0], histories[2])


def test_real_files_are_scored(real):
    found = pd.concat([infant.score(name, real) for name in ("ideal", "bayesian", "same_path")])
    assert (found.accuracy == (found.observer != "same_path")).all(), "the odd one goes an old path"


def tracks(video):
    "What is seen of each thing; the order of things may differ."
    states = np.concatenate([trial.states for trial in video.trials], dtype=int)
    return sorted((one.kind, one.shape, one.color, states[:, k].tolist()) for k, one in enumerate(video.cast) if states[:, k].any())


@pytest.mark.parametrize("name", few(["preference", "instrumental_no_barrier", "helper_hinderer", "belief", "goal_attribution"]))
def test_all_that_is_in_a_file_is_read(name, tmp_path):
    video = infant.make_item(name, 0, 3)[0]
    (path,) = write_files([video], tmp_path / "files").iterdir()
    found, _ = read_released(path)
    assert tracks(found) == tracks(video)
    for one, other in zip(found.trials, video.trials):
        assert np.array_equal(one.walls, other.walls) and np.array_equal(one.gate, other.gate)


@pytest.mark.parametrize("first, count", [(5000, 10), (0, 10), (7, 1), (0, 13)])
def test_a_partial_import_is_split_by_rank(first, count):
    items = range(first, first + count)
    videos = [infant.make_item("train_preference", item)[0] for item in items]
    rows = episode_rows(videos, {"train_preference": items})
    assert [row[6] for row in rows] == [
        "train" if rank < 0.8 * count else "validation" for rank in range(count)
    ]


def test_each_set_of_a_store_is_split_by_its_own_items(tmp_path):
    videos = [infant.make_item("train_preference", item)[0] for item in range(10)]
    videos += [infant.make_item("train_single_object", item)[0] for item in range(5)]
    splits = infant.open_episodes(infant.write_videos(tmp_path / "two", videos, {}))["split"].values.tolist()
    assert splits == ["train"] * 8 + ["validation"] * 2 + ["train"] * 4 + ["validation"]


@pytest.fixture(scope="module")
def tool():
    "The content of a file with key, lock and barrier."
    return content_of(infant.make_item("instrumental_no_barrier", 0)[0])


def imported(folder, content, name="000000ine.json"):
    folder.mkdir(exist_ok=True)
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    store, left_out = infant.import_released(folder / name, folder / f"store-{name}")
    return infant.open_episodes(store), left_out


def changed(content, change):
    content = json.loads(json.dumps(content))
    for trial in content:
        for frame in trial:
            change(frame)
    return content


def old_names(frame):
    frame["lock"], frame["key"] = frame["key"], frame.pop("pin")


def repeated_walls(frame):
    frame["walls"] = frame["walls"] * 2


def off_lattice(frame):
    frame["fuse_walls"] = [*frame["fuse_walls"], [[31, 47], [20, 20]]]


def nested_objects(frame):
    frame["objects"] = [frame["objects"]]


def walls_off_lattice(frame):
    frame["walls"] = [*frame["walls"], [[31, 47], [20, 20]]]


def joined_walls(frame):
    top = [wall for wall in frame["walls"] if wall[0][0] == 0]
    frame["walls"] = [[[0, 0], [20, 200]], *(wall for wall in frame["walls"] if wall not in top)]


def unknown_key(frame):
    frame["weather"] = "fine"


TRAPS = (old_names, repeated_walls, off_lattice, nested_objects, walls_off_lattice, joined_walls, unknown_key)
NOTES = {
    off_lattice: ["barrier tiles off the lattice"], walls_off_lattice: ["walls off the lattice"],
    unknown_key: ["unknown key 'weather'"]
}


@pytest.fixture(scope="module")
def plain(tool, tmp_path_factory):
    "The file without a trap, imported."
    return imported(tmp_path_factory.mktemp("plain") / "files", tool)[0].load()


@pytest.mark.parametrize("trap", few(TRAPS, 2), ids=lambda trap: trap.__name__)
def test_traps_change_nothing(tool, plain, tmp_path, trap):
    found, left_out = imported(tmp_path / "trap", changed(tool, trap))
    for name in ("state", "length", "walls", "gate", "kind"):
        assert np.array_equal(plain[name], found[name]), name
    assert [reason for _, reason in left_out] == NOTES.get(trap, [])


@pytest.mark.slow
def test_an_old_file_is_old_in_every_frame(tool, plain, tmp_path):
    content = changed(tool, old_names)
    for frame in content[0][:5]:
        frame.pop("lock")
    found, _ = imported(tmp_path / "old", content)
    kinds = found["kind"].values[0].tolist()
    assert sorted(kinds) == sorted(plain["kind"].values[0].tolist()) and "key" in kinds
    lock = found["state"].values[0, 0, :, kinds.index("lock"), 3]
    assert not lock[:5].any() and lock[5:50].all()
    assert found["state"].values[0, 0, :50, kinds.index("key"), 3].all()
    content[0][7]["pin"] = []
    with pytest.raises(BadData, match="both pin and lock"):
        imported(tmp_path / "both", content)


def test_traps_of_nesting_and_encoding(tool, tmp_path):
    plain, _ = imported(tmp_path / "plain", tool)
    content = json.loads(json.dumps(tool))
    content[0] = [content[0][:10], *content[0][10:]]  # a frame that is a list of frames
    content[8:] = [content[8][:50], *content[8][50:]]  # more than nine top entries
    found, _ = imported(tmp_path / "nested", content, "000000ine.json.gz")
    assert np.array_equal(plain["state"], found["state"])
    latin = json.dumps(tool).replace("./shapes/home", "./sh\u00e4pes/home").encode("latin-1")
    assert np.array_equal(imported(tmp_path / "latin", latin)[0]["state"], plain["state"])


def test_what_is_missing_or_outside_is_not_seen(tool, tmp_path):
    content = json.loads(json.dumps(tool))
    for k, frame in enumerate(content[0]):
        frame.pop("home")
        if k < 5:
            frame.pop("agent")
        if k > 100:
            frame["agent"][0] = [300, 20]
    found, left_out = imported(tmp_path / "missing", content)
    assert [reason for _, reason in left_out] == ["agent off the stage: not seen while it is there"]
    kinds = found["kind"].values[0].tolist()
    seen = found["state"].values[0, 0, :, kinds.index("agent"), 3]
    assert not seen[:5].any() and seen[5:100].all() and not seen[101:].any()
    assert not found["state"].values[0, 0, :, kinds.index("home"), 3].any()


def test_what_changes_within_a_trial_is_noted(tool, tmp_path):
    content = json.loads(json.dumps(tool))
    for frame in content[0][20:]:
        frame["walls"] = [*frame["walls"], [[80, 80], [20, 20]]]
    for frame in content[1][20:30]:
        frame["fuse_walls"] = [*frame["fuse_walls"], [[20, 20], [20, 20]]]
    _, left_out = imported(tmp_path / "changes", content)
    assert [reason for _, reason in left_out] == [
        "walls that change within a trial: those of its first frame stay", "barrier tiles that appear within a trial",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_file_that_is_there_twice_is_a_fault(tmp_path):
    for compress in (True, False):
        write_files(infant.make_item("preference", 0), tmp_path / "files", compress)
    with pytest.raises(BadData, match="is the same video as"):
        infant.import_released(tmp_path / "files", tmp_path / "b")
    store, left_out = infant.import_released(tmp_path / "files", tmp_path / "b", skip_bad=True)
    assert infant.open_episodes(store).sizes["episode"] == 2 and len(left_out) == 2


@pytest.mark.slow
def test_files_know_their_conditions_by_number(tmp_path):
    store, left_out = infant.import_released(write_files(infant.make_item("imitation", 0), tmp_path / "files"), tmp_path / "b")
    assert len(left_out) == 4 and all("go by their number" in why for _, why in left_out)
    found = infant.open_episodes(store)
    assert sorted(set(found["condition"].values)) == ["imitation", "imitation1"]
    assert (infant.score("longer_odd", found).pairs == 2).all()


def test_a_set_that_contradicts_the_file_is_refused(tmp_path):
    files = write_files(infant.make_item("preference", 0), tmp_path / "files")
    with pytest.raises(UsageError, match="is of preference, by its folder or name, not of belief"):
        infant.import_released(files, tmp_path / "b", set="belief", skip_bad=True)
    infant.import_released(files, tmp_path / "b", set="preference")
    (tmp_path / "mine").mkdir()
    (files / "000000loe.json.gz").rename(tmp_path / "mine" / "000000zze.json.gz")
    found = infant.open_episodes(
        infant.import_released(tmp_path / "mine", tmp_path / "c", set="efficiency_time")[0]
    )
    assert set(found["set"].values) == {"efficiency_time"}


FAULTS = {
    "no JSON": b"[[{", "expected 9": [[{}]] * 4,
    "trial 2 has no frames": [[{"size": [200, 200]}]] * 2 + [[]] + [[{"size": [200, 200]}]] * 6,
    "unknown icon": [[{"agent": [[10, 10], 6, "cube.png", [0, 0, 0]]}]] * 9,
    "expected \\[200, 200\\]": [[{"size": [100, 100]}]] * 9, "should be a valid dictionary": [[1]] * 9,
    "shows no agent in any frame": [
        [{"size": [200, 200], "walls": [], "objects": [[[100, 100], 6, "heart.png", [0, 0, 0]]]}]
    ] * 9
}


@pytest.mark.parametrize("message", FAULTS)
def test_a_fault_is_one_line_and_nothing_is_half_imported(tmp_path, message):
    with pytest.raises(BadData, match=message) as fault:
        imported(tmp_path, FAULTS[message], "000001loe.json")
    assert "\n" not in str(fault.value) and not (tmp_path / "store-000001loe.json").exists()


def test_what_is_left_out_is_listed(tmp_path):
    for path in REAL[:2]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "000003loe.json").write_text("[[")
    (tmp_path / "000000iie.json").write_text("[]")
    with pytest.raises(BadData, match="000003loe"):
        infant.import_released(tmp_path, tmp_path / "store")
    store, left_out = infant.import_released(tmp_path, tmp_path / "store", skip_bad=True)
    assert infant.open_episodes(store).sizes["episode"] == 2
    assert sorted(name for name, _ in left_out) == ["000000iie.json", "000003loe.json"]
    with pytest.raises(UsageError, match="not there"):
        infant.import_released(tmp_path / "nowhere", tmp_path / "other")
    assert len(read_file(REAL[0])) == 9


@pytest.mark.slow
def test_training_files_may_have_any_name_where_the_set_is_said(tmp_path):
    written = write_files([infant.make_item("train_preference", item)[0] for item in range(3)], tmp_path / "files")
    for path, name in zip(released_files(written), ("walk one", "b", "000007")):
        path.rename(path.with_name(f"{name}.json.gz"))
    store, left_out = infant.import_released(written, tmp_path / "store", "train_preference")
    assert infant.open_episodes(store)["item"].values.tolist() == [UNNUMBERED + place for place in range(3)] and not left_out
    with pytest.raises(BadData, match="files of a training set may have any name"):
        infant.import_released(written, tmp_path / "other", "preference")
