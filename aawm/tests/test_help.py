"""What `help` and Shift-Tab show: each parameter of the public face with its words."""

import inspect

import pytest

import aawm
import aawm.viz

OFFERED = [(aawm, name) for name in aawm.__all__] + [
    (aawm.viz, name) for name in ("fig3", "event_table", "trace_table")
]


@pytest.mark.parametrize("package, name", OFFERED, ids=lambda one: getattr(one, "__name__", one))
def test_help_says_what_each_parameter_is(package, name):
    thing = getattr(package, name)
    lines = inspect.getdoc(thing).splitlines()
    assert "Parameters" in lines and "Returns" in lines
    for parameter in set(inspect.signature(thing).parameters) - {"progress"}:
        place = next(k for k, line in enumerate(lines) if line.startswith(f"{parameter} : "))
        assert lines[
            place + 1 : place + 2
        ] and lines[place + 1].startswith("    "), f"{name}: nothing says what {parameter} is"

