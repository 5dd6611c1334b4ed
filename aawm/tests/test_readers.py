"""Small files of strangers: forms, limits on size, nesting and unpacking, and one line for each fault."""

import gzip
import json

import pytest

from aawm.errors import BadData, UsageError
from aawm.readers import (
    Form, Line, PlainName, Seed, Sha256, in_form, parse_json, read_small,
)

FAULTY = {
    Line: ["", "two\nlines", "bell\x07", "turned\u202eround", "line\u2028separator", "long" * 51, 3, None],
    PlainName: ["", "../up", "a/b", "a\\b", ".hidden", "-dash", "a b", "a\n", "x" * 121],
    Sha256: ["0" * 63, "G" * 64, "0" * 64 + "\n"],
    Seed: [-1, 2**63, 1.0, "1", True, None]
}
WHOLE = {
    Line: ["Ada | Grace", "Ünïcode"],
    PlainName: ["event_transformer-corrected-0.safetensors"],
    Sha256: ["0" * 64],
    Seed: [0, 2**63 - 1],
}


@pytest.mark.parametrize("kind, value", [(kind, value) for kind, values in FAULTY.items() for value in values])
def test_a_form_refuses_in_one_line(kind, value):
    with pytest.raises(BadData) as fault:
        in_form({"field": [value]}, dict[str, list[kind]], "file.json")
    assert str(fault.value).startswith("file.json: field[0]: ") and "\n" not in str(fault.value)


@pytest.mark.parametrize("kind, value", [(kind, value) for kind, values in WHOLE.items() for value in values])
def test_a_form_takes_what_it_should(kind, value):
    assert in_form(value, kind, "file.json") == value


class Sizes(Form):
    width: int
    ratio: float = 1.0


def test_a_form_names_missing_and_unknown_fields_and_counts_the_rest():
    with pytest.raises(BadData, match=r"^sizes.json: width is missing \(and 1 more\)$"):
        in_form({"height": 1}, Sizes, "sizes.json")
    with pytest.raises(BadData, match="height is not a known field"):
        in_form({"width": 1, "height": 1}, Sizes, "sizes.json")
    with pytest.raises(BadData, match="ratio: input should be a finite number"):
        in_form({"width": 1, "ratio": float("inf")}, Sizes, "sizes.json")
    assert in_form({"width": 1, "ratio": 2}, Sizes, "sizes.json").ratio == 2.0


BAD_JSON = [
    "", "{", "[1,]", "[NaN]", "[-Infinity]", "[1e999]", '{"a": 1, "a": 2}', "[" * 51 + "]" * 51,
    "[" * 200_000, '{"a":' * 5_000, "9" * 5_000, "\x00"
]

@pytest.mark.parametrize("text", BAD_JSON, ids=lambda text: repr(text[:20]))
def test_what_cannot_be_read_is_bad_data_in_one_line(text):
    with pytest.raises(BadData) as fault:
        parse_json(text, "file.json")
    assert "\n" not in str(fault.value) and str(fault.value).startswith("file.json")


def test_a_damaged_gz_is_bad_data_wherever_it_is_damaged(tmp_path):
    whole = gzip.compress(json.dumps({"numbers": list(range(200))}).encode())
    for place in range(0, len(whole), 7):
        for damaged in (
            whole[:place], whole[:place] + whole[place + 5 :],
            whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]
        ):
            (tmp_path / "file.json.gz").write_bytes(damaged)
            try:
                # a byte of the header that means nothing
                assert read_small(tmp_path / "file.json.gz") == {"numbers": list(range(200))}
            except BadData as fault:
                assert "\n" not in str(fault)


def test_a_byte_order_mark_is_read_and_other_encodings_are_named(tmp_path):
    (tmp_path / "marked.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_small(tmp_path / "marked.json") == {"a": 1}
    for name, encoding in (("old.json", "cp1252"), ("cut.json", "utf-16")):
        (tmp_path / name).write_bytes('{"a": "é"}'.encode(encoding)[: -1 if name == "cut.json" else None])
        with pytest.raises(BadData, match="no text in UTF-8"):
            read_small(tmp_path / name)


def test_what_is_no_file_is_named(tmp_path):
    with pytest.raises(UsageError, match="is not there"):
        read_small(tmp_path / "none.json")
    with pytest.raises(UsageError, match="is no file"):
        read_small(tmp_path)
