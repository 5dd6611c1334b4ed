"Raw trials in another convention are refused; what is odd in an import is counted and said."

import re
import shutil

import pandas as pd
import pytest
from typer.testing import CliRunner

from aawm.cli import app
from aawm.data import dataset_card, import_raw
from aawm.data.authors.raw import EVENT_LOG, OBSERVATIONS, RAW_COLUMNS
from aawm.data.checks import convention_lines
from aawm.errors import BadData
from aawm.schema import ENTITIES, FEATURES
from aawm.tests.conftest import ROOT

SAMPLE = ROOT / "data/sample"


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw") / "raw"
    shutil.copytree(SAMPLE / "static_multistep_000008", folder / "static_multistep_000008")
    return folder


def changed(raw, out, change):
    "A copy of the raw trial with the columns of each entity changed."
    shutil.copytree(raw, out)
    (trial,) = out.iterdir()
    table = pd.read_csv(trial / OBSERVATIONS, header=0, names=["frame", *RAW_COLUMNS[1:]], dtype=str)
    for entity in ENTITIES:
        columns = [f"{entity}_{feature}" for feature in FEATURES]
        table[columns] = table[[columns[place] for place in change]].to_numpy()
    table.to_csv(trial / OBSERVATIONS, index=False, header=list(RAW_COLUMNS))
    return out


@pytest.mark.parametrize(
    "change, said",
    [((0, 2, 1, 3, 4, 5, 6), "below the floor|is above 3 m"), ((0, 1, 2, 6, 3, 4, 5), "robots do not stand")],
)
def test_another_convention_is_refused(raw, tmp_path, change, said):
    with pytest.raises(BadData, match=said):
        import_raw(changed(raw, tmp_path / "other", change), tmp_path / "store", workers=1, progress=False)
    assert not (tmp_path / "store").exists()


def test_events_that_the_rule_does_not_find_are_counted_and_said(raw, tmp_path):
    assert not convention_lines(import_raw(raw, tmp_path / "right", workers=1, progress=False))
    folder = tmp_path / "odd"
    trial = shutil.copytree(SAMPLE / "static_gathering_000007", folder / "static_gathering_000007")
    log = (trial / EVENT_LOG).read_text()
    free = next(k for k in range(3) if f"pickup_{k}" not in log)
    taken = next(k for k in range(3) if f"pickup_{k}" in log)
    swapped = log.replace(f"_{taken}", "_x").replace(f"_{free}", f"_{taken}").replace("_x", f"_{free}")
    (trial / EVENT_LOG).write_text(swapped)
    found = CliRunner().invoke(
        app, ["import-raw", str(folder), "--out", str(tmp_path / "store"), "--workers", "1", "--no-progress"]
    )
    told = CliRunner().invoke(app, ["verify", str(tmp_path / "store")])
    for result in (found, told):
        assert not result.exit_code and "logged pickups that the rule does not find" in result.output, result.output
    assert "logged pickups that the rule does not find" in dataset_card(tmp_path / "store")


def clocked(raw, out, frames=lambda table: table, log=lambda log: log):
    "A copy of the raw trial with other frames or another log."
    shutil.copytree(raw, out)
    (trial,) = out.iterdir()
    table = pd.read_csv(trial / OBSERVATIONS, header=0, names=["frame", *RAW_COLUMNS[1:]], dtype=str)
    changed = frames(table).head(len(table)).assign(frame=range(len(table)))
    changed.to_csv(trial / OBSERVATIONS, index=False, header=list(RAW_COLUMNS))
    log(pd.read_csv(trial / EVENT_LOG)).to_csv(trial / EVENT_LOG, index=False)
    return out


@pytest.mark.parametrize("change, said", [
    ({"frames": lambda table: table.loc[table.index.repeat(2)]}, "1[45] frames a second"),
    ({"log": lambda log: log.assign(Frame=log.Frame + 60)}, "begin at another time"),
], ids=["slow", "late"])
def test_trials_on_another_clock_are_said(raw, tmp_path, change, said):
    store = import_raw(clocked(raw, tmp_path / "raw", **change), tmp_path / "store", workers=1, progress=False)
    assert re.search(f"logged pickups lie [0-9.]+ s .*{said}", "\n".join(convention_lines(store)))


def test_robots_that_do_not_face_their_way_are_said(raw, tmp_path):
    def flipped(table):
        names = [f"{entity}_{column}" for entity in ENTITIES for column in ("rot_x", "rot_y", "rot_z")]
        return table.assign(**{name: (-table[name].astype(float)).astype(str) for name in names})

    store = import_raw(clocked(raw, tmp_path / "raw", flipped), tmp_path / "store", workers=1, progress=False)
    assert any("do not face where they go" in line for line in convention_lines(store))


@pytest.mark.parametrize("entity", ["obj1", "agent0"])
def test_three_metres_in_one_frame_are_said(raw, tmp_path, entity):
    def jumped(table):
        there = table[f"{entity}_x"].astype(float)
        return table.assign(**{f"{entity}_x": there.mask(table.index == 701, there + 3).astype(str)})  # a frame that is not kept

    store = import_raw(clocked(raw, tmp_path / "raw", jumped), tmp_path / "store", workers=1, progress=False)
    assert any(f"frame 701 {entity}, 3" in line or f"frame 702 {entity}, 3" in line for line in convention_lines(store))
