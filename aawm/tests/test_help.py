"""What `help` and Shift-Tab show of the names that `aawm` itself offers: every parameter, in the sections of NumPy's docstrings."""

import inspect
import re

import pytest

import aawm

OFFERED = [name for name in aawm.__all__ if callable(getattr(aawm, name)) and name != "simulate"]  # whose source names stores


def section(text: str, title: str) -> str:
    "The lines of one section of a docstring."
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return found.group(1) if found else ""


@pytest.mark.parametrize("name", OFFERED)
def test_help_says_what_each_parameter_is(name):
    thing = getattr(aawm, name)
    text = inspect.getdoc(thing)
    described = re.findall(r"^([\w, ]+) : .+\n    \S", section(text, "Parameters"), re.MULTILINE)
    assert ", ".join(described).split(", ") == [*inspect.signature(thing).parameters]
    assert isinstance(thing, type) or section(text, "Returns")
