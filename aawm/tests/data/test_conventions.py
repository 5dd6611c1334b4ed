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


def changed(folder, frames=lambda table: table, log=lambda log: log):
    "A copy of a raw trial with other frames or another log."
    trial = shutil.copytree(SAMPLE / "static_multistep_000008", folder / "static_multistep_000008")
    table = pd.read_csv(trial / OBSERVATIONS, header=0, names=["frame", *RAW_COLUMNS[1:]], dtype=str)
    other = frames(table).head(len(table)).assign(frame=range(len(table)))
    other.to_csv(trial / OBSERVATIONS, index=False, header=list(RAW_COLUMNS))
    log(pd.read_csv(trial / EVENT_LOG)).to_csv(trial / EVENT_LOG, index=False)
    return folder


def in_order(*places):
    "Other places of the seven features of each entity."
    pairs = {f"{entity}_{FEATURES[k]}": f"{entity}_{FEATURES[place]}" for entity in ENTITIES for k, place in enumerate(places)}
    return lambda table: table.assign(**{name: table[other] for name, other in pairs.items()})


def with_signs(table):
    names = [f"{entity}_{column}" for entity in ENTITIES for column in ("rot_x", "rot_y", "rot_z")]
    return table.assign(**{name: (-table[name].astype(float)).astype(str) for name in names})


def jumped(entity):
    def frames(table):  # at one that is not kept
        there = table[f"{entity}_x"].astype(float)
        return table.assign(**{f"{entity}_x": there.mask(table.index == 701, there + 3).astype(str)})

    return frames


@pytest.mark.parametrize(
    "order, said", [((0, 2, 1, 3, 4, 5, 6), "below the floor|is above 3 m"), ((0, 1, 2, 6, 3, 4, 5), "robots do not stand")]
)
def test_another_convention_is_refused(tmp_path, order, said):
    with pytest.raises(BadData, match=said):
        import_raw(changed(tmp_path / "other", in_order(*order)), tmp_path / "store", workers=1, progress=False)
    assert not (tmp_path / "store").exists()


ODD = {
    "nothing": ({}, None),
    "slow": ({"frames": lambda table: table.loc[table.index.repeat(2)]}, r"logged pickups lie [0-9.]+ s .*1[45] frames a second"),
    "late": ({"log": lambda log: log.assign(Frame=log.Frame + 60)}, r"logged pickups lie [0-9.]+ s .*begin at another time"),
    "turned": ({"frames": with_signs}, "do not face where they go"),
    "object jumps": ({"frames": jumped("obj1")}, "frame 70[12] obj1, 3"),
    "robot jumps": ({"frames": jumped("agent0")}, "frame 70[12] agent0, 3"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_is_said(tmp_path, name):
    change, said = ODD[name]
    lines = convention_lines(import_raw(changed(tmp_path / "raw", **change), tmp_path / "store", workers=1, progress=False))
    assert re.search(said, "\n".join(lines)) if said else not lines


def test_events_that_the_rule_does_not_find_are_counted_and_said(tmp_path):
    trial = shutil.copytree(SAMPLE / "static_gathering_000007", tmp_path / "odd" / "static_gathering_000007")
    log = (trial / EVENT_LOG).read_text()
    free = next(k for k in range(3) if f"pickup_{k}" not in log)
    taken = next(k for k in range(3) if f"pickup_{k}" in log)
    swapped = log.replace(f"_{taken}", "_x").replace(f"_{free}", f"_{taken}").replace("_x", f"_{free}")
    (trial / EVENT_LOG).write_text(swapped)
    store = str(tmp_path / "store")
    options = ("--out", store, "--workers", "1", "--no-progress")
    for command in (["import-raw", str(tmp_path / "odd"), *options], ["verify", store]):
        result = CliRunner().invoke(app, command)
        assert not result.exit_code and "logged pickups that the rule does not find" in result.output, result.output
    assert "logged pickups that the rule does not find" in dataset_card(store)
