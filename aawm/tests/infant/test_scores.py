"""Pairs and crossed scores of whole sets, of parts of them and of imported ones; what is no observer is refused."""


import pandas as pd
import pytest

from aawm import infant
from aawm.errors import BadData
from aawm.infant.scores import SCORE_COLUMNS, crossed_scores, on_own_scale, score_table, unpaired
from aawm.infant.stage import SOCIAL_SETS


def watched(tmp_path, name, items=2, observer="longer_odd", **how):
    return infant.watch(
        infant.make_observer(observer), infant.generate(tmp_path / name, name, items, progress=False, **how)
    )


@pytest.mark.parametrize("name", infant.SETS)
def test_every_video_is_in_a_pair_and_pairs_differ_in_one_thing(tmp_path, name):
    videos = watched(tmp_path, name)
    pairs = infant.pair_table(videos)
    kinds = pairs.groupby("item").pair_type.apply(sorted)
    social = {"belief": ["EU", "EU"], "helper_hinderer": ["EU"]}
    expected = social.get(name, ["EN", "EU", "NU"]) if name in SOCIAL_SETS else None
    for found in kinds:
        assert found == expected or (expected is None and len(found) == 1)
    for pair in pairs.itertuples():
        one = videos.loc[pair.plausible]
        other = videos.loc[pair.odd]
        assert (one.condition == other.condition) != (one.ending == other.ending)
    assert unpaired(videos).empty and (score_table(videos).unpaired == 0).all()


@pytest.mark.parametrize("name, left", [("imitation", (0, 3)), ("belief", (0, 3)), ("goal_attribution", (1, 2)), ("approach", (2, 3))])
def test_two_of_four_videos_are_no_pair_by_being_two(tmp_path, name, left):
    videos = watched(tmp_path, name, 1).iloc[list(left)]
    assert infant.pair_table(videos).empty and len(unpaired(videos)) == 2


def test_tables_may_be_joined_and_filtered(tmp_path):
    first = watched(tmp_path, "preference", 2, "ideal")
    second = watched(tmp_path, "multi_agent", 2, "same_path")
    apart = pd.concat([score_table(second), score_table(first)], ignore_index=True)
    both = pd.concat([first, second])
    assert score_table(both).equals(apart) and unpaired(both).empty
    assert list(on_own_scale(apart[:0])) == list(SCORE_COLUMNS), "scores of nobody keep their columns"
    assert score_table(both[both.set == "multi_agent"]).equals(score_table(second))


def test_a_video_without_its_partner_is_counted(tmp_path):
    made = infant.open_episodes(infant.generate(tmp_path / "a", "preference", 3, progress=False))
    table = infant.score("longer_odd", made.isel(episode=[0, 1, 2, 5]))
    assert (table.pairs == 1).all() and (table.unpaired == 2).all()


def test_a_video_that_is_there_twice_is_refused(tmp_path):
    made = infant.open_episodes(infant.generate(tmp_path / "a", "preference", 2, progress=False))
    with pytest.raises(
        BadData, match="1 videos are there twice; the first: preference 0 swapped preferred e"
    ):
        infant.score("longer_odd", made.isel(episode=[0, 1, 0, 2]))


@pytest.mark.parametrize("name, how", [("preference", dict(balanced=True)), ("efficiency_path", {}), ("multi_agent", {})])
def test_items_of_one_condition_are_not_crossed(tmp_path, name, how):
    assert infant.crossed_table(watched(tmp_path, name, 4, **how)).empty


def test_an_item_that_lacks_a_video_is_not_crossed(tmp_path):
    videos = watched(tmp_path, "belief", 2, "ideal")
    found = infant.crossed_table(videos.drop(index=1))
    assert (found["items"] == 1).all() and (found.accuracy == 1).all()
    assert infant.crossed_table(videos.drop(index=[1, 5])).empty


def test_a_crossed_score_that_is_missing_is_counted(tmp_path):
    videos = watched(tmp_path, "belief", 2, "ideal")
    videos.loc[0, "mean all"] = float("nan")
    table = crossed_scores(videos, infant.make_observer("ideal"))
    assert table.unscored.tolist() == [
        int(kind == ("mean", "all")) for kind in zip(table.reduction, table.window)
    ]
