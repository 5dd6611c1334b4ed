"""Models from outside: what they get tells nothing, what they answer is checked row by row; weights that come with the package."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from aawm import infant
from aawm.errors import BadData, UsageError
from aawm.infant.outside import read_answers

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


def test_requests_that_fail_leave_no_folder(place, tmp_path, monkeypatch):
    monkeypatch.setattr("aawm.infant.drawing.film_of", lambda *words: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        infant.write_requests(place / "set", tmp_path / "requests")
    assert not list(tmp_path.iterdir())
