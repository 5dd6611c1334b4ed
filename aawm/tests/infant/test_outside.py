"""Models from outside: what they get tells nothing, what they answer is checked row by row; weights that come with the package."""

import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from aawm import infant
from aawm.errors import BadData, UsageError
from aawm.infant import outside, released
from aawm.infant.commands import app
from aawm.infant.outside import read_answers
from aawm.infant.scores import SCORE_COLUMNS, crossed_scores
from aawm.tests.infant.files import write_files

PROGRAM = """
import csv, pathlib, sys
import numpy as np

with open(sys.argv[2], "w", newline="") as out:
    rows = csv.writer(out)
    rows.writerow(["file", "surprise"])
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.npz")):
        rows.writerow([path.name, np.load(path)["lengths"][8]])
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    "A set of two items, and requests of it."
    place = tmp_path_factory.mktemp("outside")
    infant.generate(place / "set", "efficiency_path", 2, progress=False)
    infant.write_requests(place / "set", place / "requests", size=16)
    return place


def test_a_program_in_another_process_is_scored_like_an_observer(place):
    program = place / "program.py"
    program.write_text(PROGRAM)
    subprocess.run([sys.executable, program, place / "requests" / "files", place / "answers.csv"], check=True)
    table, videos = infant.score_answers(place / "answers.csv", place / "requests")
    same = infant.score("longer_odd", place / "set").query("reduction == 'mean' and window == 'all'")
    assert (
        table.accuracy.tolist() == same.accuracy.tolist()
        and table.pairs.tolist() == same.pairs.tolist() == [2]
    )
    assert (table.reduction.tolist(), table.window.tolist(), len(videos)) == (["own"], ["own"], 4)


def test_requests_are_shuffled_and_hold_no_label(place):
    files = place / "requests" / "files"
    assert {path.suffix for path in files.iterdir()} == {".npz", ".csv"}
    key = pd.read_parquet(place / "requests" / "key.parquet")
    assert key.file.tolist() == sorted(key.file) and sorted(zip(key["item"], key.member)) != list(
        zip(key["item"], key.member)
    )
    one = np.load(files / "00000.npz")
    assert (
        set(one.files) == {"frames", "lengths"} and one["frames"].shape == (one["lengths"].sum(), 16, 16, 3)
    )
    with pytest.raises(UsageError, match="is not empty"):
        infant.write_requests(place / "set", place / "requests")


FILES = ["00000.npz", "00001.npz"]


@pytest.mark.parametrize("rows, message", [
    ([("00000.npz", 1), ("x.npz", 2)], "row 2: 'x.npz' is none of the files"),
    ([("00000.npz", 1), ("00000.npz", 2)], "row 2: 00000.npz is there already, in row 1"),
    ([("00000.npz", 1), ("00001.npz", "high")], "row 2: the surprise of 00001.npz is 'high'"),
    ([("00000.npz", 1), ("00001.npz", "nan")], "row 2: the surprise of 00001.npz is 'nan'"),
    ([("00001.npz", 1)], "has no row for 00000.npz"),
])  # fmt: skip
def test_a_fault_in_answers_names_its_row(tmp_path, rows, message):
    path = tmp_path / "answers.csv"
    pd.DataFrame(rows, columns=["file", "surprise"]).to_csv(path, index=False)
    with pytest.raises(BadData, match=message):
        read_answers(path, FILES)
    with pytest.raises(BadData, match="lacks the column surprise; it has file"):
        read_answers(pd.DataFrame({"file": FILES}), FILES)


def test_answers_may_be_parquet_and_name_paths(tmp_path):
    path = tmp_path / "answers.parquet"
    pd.DataFrame({"file": [f"files/{name}" for name in FILES[::-1]], "surprise": [2.0, 1.0]}).to_parquet(path)
    assert read_answers(path, FILES).tolist() == [1.0, 2.0]
    path.write_bytes(b"PAR1")
    with pytest.raises(BadData, match="cannot be read as a table"):
        read_answers(path, FILES)


def test_pixels_of_a_recorded_video_are_what_is_seen(place, tmp_path):
    pytest.importorskip("av")
    from aawm.infant.outside import film_of, write_film
    from aawm.infant.released import released_files

    videos = infant.make_item("train_preference", 0)
    made = infant.open_episodes(infant.write_videos(tmp_path / "made", videos, {}))
    files = write_files(videos, tmp_path / "files")
    (path,) = released_files(files)
    film = path.with_name(path.name.replace(".json.gz", ".mp4"))
    frames, lengths = film_of(infant.make_batch(made, [0]), 64)
    write_film(film, frames // 2)
    store, _ = infant.import_released(files, tmp_path / "store", videos=True)
    film.unlink()  # the store has a copy
    batch = infant.make_batch(infant.open_episodes(store))
    seen = infant.draw(batch, [0, 0], [0, 8], [0, 40], 64).numpy().astype(float)
    meant = frames[[0, lengths[:8].sum() + 40]] // 2
    assert np.abs(seen - meant).mean() < 3 and seen.max() < 140
    write_film(film, frames[:-1])
    with pytest.raises(BadData, match="frames, its trials"):
        infant.import_released(files, tmp_path / "short", videos=True)


def test_a_store_has_its_videos_or_says_which_are_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(released, "check_video", lambda *how: None)  # of any bytes, so that no package is needed
    files = write_files(infant.make_item("train_preference", 0), tmp_path / "files")
    (path,) = released.released_files(files)
    released.film_beside(path).write_bytes(b"a film")
    with monkeypatch.context() as killed, pytest.raises(ZeroDivisionError):
        killed.setattr(shutil, "copyfile", lambda *paths: 1 // 0)
        infant.import_released(files, tmp_path / "store", videos=True)
    store, _ = infant.import_released(files, tmp_path / "store", videos=True)
    assert CliRunner().invoke(app, ["verify", str(store)]).exit_code == 0
    (copy,) = (store / "videos").iterdir()
    copy.write_bytes(b"another film")
    damaged = CliRunner().invoke(app, ["verify", str(store)])
    assert "does not match its name" in str(damaged.exception)
    copy.unlink()
    missing = CliRunner().invoke(app, ["verify", str(store)])
    assert "is missing" in str(missing.exception)


def test_shipped_weights_are_checked():
    one = infant.pretrained("object_transformer")
    assert one.card["sha256"] and one.seed == 0
    with pytest.raises(UsageError, match="no weights of the observer object_transformer, seed 7"):
        infant.pretrained("object_transformer", 7)


def test_items_draw_themselves_small_and_without_torch():
    code = "import sys; from aawm.infant.bib_sets import make_item; a = make_item('preference', 0)._repr_svg_(); print(len(a), 'torch' in sys.modules)"
    size, torch_too = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(size) < 10_000 and torch_too == "False"
    for name in infant.SETS + infant.TRAINING_SETS:
        item = infant.make_item(name, 0)
        assert len(item._repr_svg_()) < 12_000 and len(item[0].trials[0]._repr_svg_()) < 10_000
        assert all(video.ending.replace("_", " ") in item._repr_svg_() for video in item)


def test_crossed_scores_are_rows_beside_pairs():
    videos = pd.DataFrame([
        ("goal_attribution", 0, condition, outcome, member, ending, value)
        for condition, outcome, member, ending, value in (
            ("agent", "E", "e", "familiar", 1.0), ("agent", "U", "u", "other", 2.0),
            ("non_agent", "NE", "e", "familiar", 1.5), ("non_agent", "NE", "u", "other", 2.0))
    ], columns=["set", "item", "condition", "outcome", "member", "ending", "mean motion"])  # fmt: skip
    rows = crossed_scores(videos, infant.make_observer("same_place"))
    assert (
        rows.pair_type.tolist() == ["HE"] and rows.accuracy.tolist() == [1.0]
        and rows.columns.tolist() == list(SCORE_COLUMNS)
    )
    assert crossed_scores(videos.iloc[:2], infant.make_observer("same_place")).empty


def test_requests_that_fail_leave_no_folder(place, tmp_path, monkeypatch):
    monkeypatch.setattr(outside, "film_of", lambda *words: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        infant.write_requests(place / "set", tmp_path / "requests")
    assert not list(tmp_path.iterdir())
