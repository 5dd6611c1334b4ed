"""The authors' trajectories: read, and refused in one line where they are malformed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from aawm import cli, marple
from aawm.errors import AawmError, BadData, Refused
from aawm.marple.pairs import Plan, open_pairs, verify_pairs
from aawm.marple.released import import_released, trials_of
from aawm.tests.conftest import FIXTURES

DATA = FIXTURES / "marple"


@pytest.fixture(scope="module")
def pairs():
    return [Plan(1, houses=1).pair(index) for index in range(5)]


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    "The same pairs in the authors' form."
    folder = tmp_path_factory.mktemp("released") / "test"
    shutil.unpack_archive(DATA / "written.tar.xz", folder, filter="data")
    return folder


def one_of(folder):
    "The folder of the snack's culprit."
    return next(path for path in sorted(folder.glob("*/*/*/get_snack")))


def test_pairs_come_back_as_they_were(pairs, released, tmp_path):
    store = import_released(released, tmp_path / "store", released / "experiments.json")
    verify_pairs(store)
    back = {
        (pair.house.key, *(tuple(run.actions.tolist()) for run in pair.runs)): pair
        for pair in open_pairs(store)
    }
    assert len(back) == len(pairs) == 5
    for pair in pairs:
        other = back[pair.house.key, *(tuple(run.actions.tolist()) for run in pair.runs)]
        assert (
            other.culprit == pair.culprit and other.horizon == pair.horizon
            and other.scenario == pair.scenario
        )
        for one, two in zip(pair.runs, other.runs):
            assert one.mission == two.mission and one.query_step == two.query_step
            assert all(
                (getattr(one, name) == getattr(two, name)).all() for name in ("poses", "targets", "subgoals")
            )


def test_other_trajectories_in_the_same_rooms_are_no_continuation(released, tmp_path):
    name, entry = next(iter(json.loads((released / "experiments.json").read_text()).items()))
    exchanged = {
        "A_mission": entry["B_mission"], "B_mission": entry["A_mission"],
        "inference_answer": {"A": "B", "B": "A"}[entry["inference_answer"]]
    }
    one, other = (tmp_path / f"{which}.json" for which in ("one", "other"))
    one.write_text(json.dumps({name: entry}))
    other.write_text(json.dumps({name: entry | exchanged}))
    store = import_released(released, tmp_path / "store", one)
    assert import_released(released, store, one) == store
    with pytest.raises(Refused, match="trajectories"):
        import_released(released, store, other)


def test_arrays_with_the_releases_faults_are_read(pairs, released, tmp_path):
    folder = tmp_path / "test"
    shutil.copytree(released, folder)
    for pair in pairs:
        for place in folder.glob(f"{pair.runs[0].mission}-{pair.runs[1].mission}/*/*"):
            for run in pair.runs:
                states = sorted((place / run.mission).glob("*[0-9]_states.npy"))
                if len(states) == len(run) + 1 and (np.load(states[0]) == run.states(0)[0]).all():
                    for path, array in zip(states, run.states(released=True)):
                        np.save(path, array)
    assert len(open_pairs(import_released(folder, tmp_path / "store"))) == 5


def put(name, content):
    return lambda folder: (folder / name).write_text(
        content if isinstance(content, str) else json.dumps(content)
    )


def change(name, **fields):
    return lambda folder: put(name, json.loads((folder / name).read_text()) | fields)(folder)


def bent(folder):
    array = np.load(folder / "00002_states.npy")
    array[5, 5, 3] ^= 7
    np.save(folder / "00002_states.npy", array)


def endless(folder):
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (10000000000000, 1, 8), }\n"
    (folder / "00001_states.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    )


def pickled(folder):
    np.save(folder / "00001_states.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)


@pytest.mark.parametrize("fault, words", [
    (lambda folder: (folder / "00001_action.json").unlink(), "00000 to"), (lambda folder: (folder / "00003_states.npy").unlink(), "is missing"),
    (put("00001_action.json", "{"), "is no JSON"), (put("00001_action.json", [1]), "the content: input should be"),
    (change("00001_action.json", action_type=99), "action_type: input should be less than 11"), (change("00001_action.json", action_type="forward"), "action_type: input should be a valid integer"),
    (change("00001_action.json", action_type=9, object_type=63), "has no effect"), (bent, "channel 3"), (pickled, "cannot be read as an array"), (endless, "cannot be read as an array"),
    (put("00000_states.json", {"Grid": {}}), "00000_states.json"), (lambda folder: [path.unlink() for path in folder.glob("*inference*")], "inference state"),
    (lambda folder: np.save(folder / "00001_states.npy", np.zeros((3, 3))), "must be uint8"),
], ids=range(13))
def test_a_malformed_trajectory_gets_one_line_and_no_store(fault, words, released, tmp_path):
    folder = tmp_path / "test"
    run = one_of(released)
    shutil.copytree(run.parent, folder / run.parent.relative_to(released))
    fault(folder / run.relative_to(released))
    with pytest.raises(BadData, match=words) as raised:
        import_released(folder, tmp_path / "store")
    assert "\n" not in str(raised.value) and not (tmp_path / "store").exists()


def test_the_judged_trials_of_the_release_are_fifty():
    found = trials_of(Path("somewhere"), DATA / "released" / "experiments.json")
    assert len(found) == 50 and {scenario.name for scenario, *_ in found} == set(marple.SCENARIOS)
    assert {
        missions.index(scenario.culprit)
        for scenario, _, missions, _ in found
        if scenario.name in ("shower", "laundry")
    } == {1}
    assert found[0][1] == Path("somewhere/watch_movie_cozily-watch_news_on_tv/room_0/00001")


@pytest.mark.parametrize("content, words", [
    ({"a-b": {"inference_answer": "A", "A_mission": "a", "B_mission": "b", "trajs": []}}, "not two missions"), ({}, "names no trials"),
    ({"feed_dog-take_shower": {}}, "feed_dog-take_shower.inference_answer is missing"), ([], "the content: input should be a valid dictionary"),
    ({"feed_dog-take_shower": {"inference_answer": "A", "A_mission": "feed_dog", "B_mission": "take_shower", "trajs": []}}, "is not the one who"),
    ({"feed_dog-take_shower": {"inference_answer": "B", "A_mission": "feed_dog", "B_mission": "take_shower", "trajs": [["..", "x"]]}}, "must be a plain name"),
], ids=range(6))
def test_malformed_experiments_get_one_line(content, words, tmp_path):
    (tmp_path / "experiments.json").write_text(json.dumps(content))
    with pytest.raises(AawmError, match=words) as raised:
        trials_of(tmp_path, tmp_path / "experiments.json")
    assert "\n" not in str(raised.value)


def test_by_command(released, tmp_path):
    words = ("--out", tmp_path / "store", "--experiments", released / "experiments.json")
    done = CliRunner().invoke(cli.app, ["marple", "import-released", str(released), *map(str, words)])
    assert done.exit_code == 0 and "5 pairs" in done.output
