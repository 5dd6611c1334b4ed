"""Houses, missions and released configurations: what is drawn fits together, and what does not fit is refused in one line."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aawm import marple
from aawm.errors import AawmError, BadData, UsageError
from aawm.marple.configurations import Configuration, grid_house, read_configurations
from aawm.marple.furnishing import can_be_done, draw_house
from aawm.marple.houses import Room, can_be_faced, reachable
from aawm.marple.missions import mission, program
from aawm.marple.pairs import DIFFERENCES, house_of
from aawm.marple.vocabulary import PICKUP, kind_id
from aawm.readers import in_form
from aawm.tests.conftest import FIXTURES

DATA = FIXTURES / "marple"
GOLDEN = DATA / "init_config_change_outfit_do_laundry.json"
FILES = sorted(DATA.glob("*.json"))


def read_configuration(content):
    return grid_house(in_form(content, Configuration, "the configuration").Grid, "the configuration")


def one_line(fault: AawmError) -> str:
    text = str(fault)
    assert text and "\n" not in text
    return text


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(list(marple.SCENARIOS)), st.integers(0, 10**6))
def test_every_mission_can_be_done_in_a_furnished_house(name, seed):
    scenario = marple.SCENARIOS[name]
    house = draw_house(name, seed)
    assert reachable(house.free) and can_be_faced(house)
    for found in scenario.missions:
        run = marple.plan(house, found, seed=seed)
        # all subgoals, each once, in order
        assert list(run.ends()) == list(range(len(marple.MISSIONS[found].subgoals)))
        assert (run.query_step is not None) == (found == scenario.culprit)


def test_a_second_television_is_left_alone():
    "As released, every subgoal names its room: who turns one television on watches that one."
    television = kind_id("television")
    houses = [house_of("pillow", number) for number in range(marple.pairs.TEST_HOUSES)]
    several = [house for house in houses if sum(piece.kind == television for piece in house.furniture) > 1]
    assert several and all(goal.room for found in marple.MISSIONS.values() for goal in found.subgoals)
    for house in several:
        for name in marple.SCENARIOS["pillow"].missions:
            watched = {
                step.piece
                for step in program(house, name)
                if step.action != PICKUP and house.furniture[step.piece].kind == television
            }
            assert [house.rooms[house.furniture[piece].room].type for piece in watched] == ["LivingRoom"]


def test_the_released_snack_house_does_not_explain_the_published_horizon():
    "What the dataset card says."
    house = marple.read_configuration_file(next(path for path in FILES if "get_snack" in path.stem))
    horizons = [marple.plan(house, "get_snack", start, seed=1).horizon for start in house.starts()]
    assert len(horizons) == 784 and round(
        np.mean(horizons), 1
    ) == 19.2 and max(horizons) == 34 < marple.SCENARIOS["snack"].horizon
    assert "784 starts a shortest run reaches the query after 19.2 steps on average, and after 34 at most" in DIFFERENCES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_released_configurations(path):
    house = marple.read_configuration_file(path)
    for found in path.stem.removeprefix("init_config_").replace("get_snack_clean", "get_snack|clean").replace(
        "outfit_do", "outfit|do"
    ).replace("dog_take", "dog|take").split("|"):
        assert len(marple.plan(house, found)) > 10


def broken(change) -> dict:
    content = json.loads(FILES[0].read_text())
    change(content["Grid"])
    return content


FAULTS = {
    "no rooms": lambda grid: grid.pop("rooms"),
    "unknown room": lambda grid: grid["rooms"]["initial"][0].update(type="Attic"),
    "unknown furniture": lambda grid: grid["rooms"]["initial"][0]["furnitures"]["initial"][0].update(
        type="throne"
    ),
    "object as furniture": lambda grid: grid["rooms"]["initial"][0]["furnitures"]["initial"][0].update(
        type="sandwich"
    ),
    "outside": lambda grid: grid["rooms"]["initial"][0]["furnitures"]["initial"][0].update(pos=[40, 2]),
    "overlap": lambda grid: grid["rooms"]["initial"][1]["furnitures"]["initial"][1].update(pos=[14, 3]),
    "half a cell": lambda grid: grid["rooms"]["initial"][0].update(size=[5.5, 3]),
    "state": lambda grid: grid["rooms"]["initial"][0]["furnitures"]["initial"][0].update(
        state={"toggleable": True}
    ),
    "width": lambda grid: grid.update(width="18"),
    "door": lambda grid: grid["doors"]["initial"][0].update(pos=[2, 2])
}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_malformed_configuration_is_refused_in_one_line(fault):
    with pytest.raises(BadData) as raised:
        read_configuration(broken(FAULTS[fault]))
    one_line(raised.value)


def with_first(house, part: str, **values):
    "A house whose first piece or object is changed."
    entries = getattr(house, part)
    return replace(house, **{part: (replace(entries[0], **values), *entries[1:])})


IMPOSSIBLE = {
    "overlaps another room": lambda house: replace(house, rooms=(*house.rooms, Room("Study", 2, 2, 2, 2))),
    "cannot be 'g'": lambda house: with_first(house, "objects", state=1),
    "instance number -1; it must be 0": lambda house: with_first(house, "furniture", number=-1),
    "instance number -1; it must fit": lambda house: with_first(house, "objects", number=-1),
    "instance number 256": lambda house: with_first(house, "objects", number=256),
}


@pytest.mark.parametrize("words", IMPOSSIBLE)
def test_an_impossible_house_is_refused_in_one_line(words):
    with pytest.raises(BadData, match=words) as raised:
        IMPOSSIBLE[words](marple.golden_house())
    one_line(raised.value)


def test_two_files_of_one_name_are_refused(tmp_path):
    other = tmp_path / "other" / FILES[0].name
    other.parent.mkdir()
    shutil.copy(FILES[1], other)
    with pytest.raises(UsageError, match="both be called") as raised:
        read_configurations([FILES[0], other])
    assert str(other) in one_line(raised.value) and len(read_configurations([FILES[0], FILES[0]])) == 1


def test_missions_that_cannot_be_done_and_texts_that_are_none():
    with pytest.raises(BadData, match="get_snack"):
        one_line(program(marple.golden_house(), "get_snack"))
    with pytest.raises(UsageError, match="do_laundry"):
        marple.plan(marple.golden_house(), "do_laundri")
    for text in (
        "fly to the moon", "pickup table", "toggle light", "open refrigerator=on", "pickup table@table"
    ):
        with pytest.raises(UsageError) as raised:
            mission("odd", text)
        one_line(raised.value)
    with pytest.raises(UsageError, match="stand"):
        marple.plan(marple.golden_house(), "do_laundry", pose=(0, 0, 0))


def test_the_golden_house_to_the_digit():
    house = marple.golden_house()
    texts = {marple.plan(house, "do_laundry", pose=(11, 13, 3), seed=seed).text for seed in range(40)}
    assert "FFFRFFLFFFFFFFLF[pickup]LLFRFFFFFFFL[open][drop][close][toggle](idle x 11)[toggle][open][pickup][close]LFFFFFR[open][drop][close]" in texts
    starts = house.starts()
    runs = [marple.plan(house, "do_laundry", pose) for pose in starts]
    lengths = np.array([len(run) for run in runs])
    horizons = np.array([run.horizon for run in runs])
    assert len(starts) == 764 and (round(lengths.mean(), 2), lengths.min(), lengths.max()) == (55.50, 41, 68)
    assert (round(horizons.mean(), 2), round(horizons.std(), 2), horizons.min(), horizons.max()) == (
        30.50, 6.01, 16, 43
    )
    outfit = [len(marple.plan(house, "change_outfit", pose)) for pose in starts]
    assert abs(np.mean(outfit) - 27.05) < 0.02 and (min(outfit), max(outfit)) == (13, 41)


def test_a_closed_door_cuts_missions_off(tmp_path):
    house = marple.golden_house()
    shut = replace(house, doors=(replace(house.doors[0], open=False), *house.doors[1:]))
    assert can_be_done(house, "do_laundry") and not can_be_done(shut, "do_laundry")
    with pytest.raises(BadData, match="no way leads"):
        marple.plan(shut, "do_laundry", (3, 3, 0))
    content = json.loads(GOLDEN.read_text())
    content["Grid"]["doors"]["initial"][0]["state"] = "closed"
    assert read_configuration(content) == shut
    with pytest.raises(BadData, match="in none of shut") as fault:
        marple.generate_pairs(tmp_path / "kept", 1, scenarios=("laundry",), imported={"shut": shut}, progress=False)
    one_line(fault.value)


def test_a_folder_of_configurations_is_read_and_templates_are_passed_over(tmp_path):
    folder = tmp_path / "configs"
    folder.mkdir()
    for path in FILES:
        shutil.copy(path, folder)
    template = json.loads(FILES[0].read_text())
    template["Grid"]["rooms"]["initial"] = []
    (folder / "init_config_template.json").write_text(json.dumps(template))
    assert read_configurations([folder]) == read_configurations(FILES) and len(FILES) == 3
    for path in FILES:
        (folder / path.name).unlink()
    with pytest.raises(UsageError, match="holds no configuration") as raised:
        read_configurations([folder])
    one_line(raised.value)
    (folder / "init_config_half.json").write_text("{")
    with pytest.raises(BadData, match="is no JSON"):
        read_configurations([folder])
