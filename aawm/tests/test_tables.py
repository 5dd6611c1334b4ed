"""CSV is read as CSV, and written so that no spreadsheet runs it."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

from aawm.readers import joined_rows, read_csv
from aawm.errors import BadData, UsageError
from aawm.files import save_table

SAID = [
    "row, participant, trial", "row,participant,trial\nanswer,p,t", "one\u2028two\u0085three\x0cfour", "=1+1", "+49 30", "-",
    "@SUM(A1)", "'quoted'", '"', "a;=1", "\t=1", "ends\r", "", "null", "007", "1e5"
]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("named", [False, True])
def test_what_a_person_wrote_never_takes_the_form_of_the_file(tmp_path, encoding, separator, named):
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=separator, lineterminator="\r\n")
    for order in (1, -1):  # joined files: each has its own header, in its own order
        writer.writerow(["row", "participant", "trial", "comment"][::order])
        writer.writerows([["answer", f"p{place}", "t", said][::order] for place, said in enumerate(SAID)])
    text = f"sep={separator}\r\n" * named + file.getvalue()
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    (tmp_path / "class.csv").write_bytes(mark + text.encode(encoding))
    rows = joined_rows(tmp_path / "class.csv", {"row", "participant", "trial"})
    assert [row["comment"] for row in rows] == SAID * 2
    assert [row["participant"] for row in rows] == [f"p{place}" for place in range(len(SAID))] * 2
    (tmp_path / "one.csv").write_bytes(mark + text[: len(text) // 2].rpartition("\r\n")[0].encode(encoding))
    table = read_csv(tmp_path / "one.csv", dtype=str, keep_default_na=False)
    assert [said.replace("\r\n", "\n") for said in table.comment[:10]] == SAID[:10]


@pytest.mark.parametrize("text, word", [
    ("", ""), ("a,b\n1,2\n", "does not begin"), ('row,trial\n"open,1\n', "no whole CSV"), ("row,trial\n1\n", "1 cells"),
    ("row,trial\n1,2,3\n", "3 cells")
])  # fmt: skip
def test_a_broken_table_is_one_line(tmp_path, text, word):
    (tmp_path / "a.csv").write_text(text)
    if not word:
        assert joined_rows(tmp_path / "a.csv", {"row"}) == []
        return
    with pytest.raises(BadData, match=word):
        joined_rows(tmp_path / "a.csv", {"row", "trial"})
    with pytest.raises(UsageError, match="not there"):
        read_csv(tmp_path / "none.csv")


def test_a_table_that_is_written_has_no_formula_and_its_numbers_stay(tmp_path):
    table = pd.DataFrame({"said": SAID, "-value": -np.arange(len(SAID)) / 2, "kind": pd.Categorical(["=x"] * len(SAID))})
    save_table(tmp_path / "a.csv", table)
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    for separator in (";", "\t", "\n"):
        for cell in (part for row in rows for text in row for part in text.split(separator)):
            assert cell.lstrip()[:1] not in ("=", "+", "-", "@") or float(cell) <= 0
    again = read_csv(tmp_path / "a.csv")
    assert again["'-value"].tolist() == table["-value"].tolist() and table.said.tolist() == SAID
    save_table(tmp_path / "a.parquet", table)
    assert pd.read_parquet(tmp_path / "a.parquet").said.tolist() == SAID  # no spreadsheet runs these
