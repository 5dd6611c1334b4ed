"Parameters of notebooks arrive as lists and numbers, from Python and from papermill alike."

import json
from pathlib import Path

import numpy as np
import pytest

from aawm.errors import UsageError
from aawm.runs.notebooks import check_parameters, hand_parameters


@pytest.fixture
def page(tmp_path):
    source = "steps = 3\nscale = 0.5\nnames = ['x']\nnone = []\nplace = 'a'"
    cell = {
        "cell_type": "code", "id": "a", "execution_count": None, "outputs": [], "source": source,
        "metadata": {"tags": ["parameters"]}
    }
    path = tmp_path / "page.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}))
    return path


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"names": ("a", "b")}, ["a", "b"]),
        ({"names": np.array(["a", "b"])}, ["a", "b"]),
        ({"none": "a,b"}, ["a", "b"]),
        ({"steps": np.int64(7)}, 7),
        ({"scale": np.float32(2.5)}, 2.5),
        ({"place": Path("a")}, "a"),
    ],
)
def test_sequences_are_lists_and_numpys_numbers_are_numbers(page, given, expected):
    (value,) = check_parameters(page, given).values()
    assert value == expected and type(value) is type(expected)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_number_that_is_not_finite_gets_one_line(page, number):
    for call in (
        lambda: check_parameters(page, {"scale": float(number)}),
        lambda: hand_parameters(["scale = 0.5", f"# Parameters\nscale = float('{number}')\n"]),
    ):
        with pytest.raises(UsageError, match=f"parameter scale is {number}; give a finite number"):
            call()
