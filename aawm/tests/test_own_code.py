"""A user's own module: one that parses arguments, exits or prints where it is imported gets one line, as a model, observer or method."""

import sys

import pytest

from aawm.errors import ModelContractError, UsageError
from aawm.infant import make_observer
from aawm.marple.commands import find_method
from aawm.models import model_class

READERS = {"model": model_class, "observer": make_observer, "method": find_method}
FAULTS = {
    "exits where it is imported, with 2": "import argparse\nargparse.ArgumentParser().parse_args()\n",
    "exits where it is imported, with 3": "import sys\nsys.exit(3)\n",
    "cannot import own_code: ZeroDivisionError": "1 / 0\n",
}


@pytest.fixture
def module(tmp_path, monkeypatch):
    "Write a module that can be imported as `own_code`."
    monkeypatch.syspath_prepend(tmp_path)
    yield (tmp_path / "own_code.py").write_text
    sys.modules.pop("own_code", None)


@pytest.mark.parametrize("what", READERS)
@pytest.mark.parametrize("words", FAULTS)
def test_a_module_that_does_more_than_define(module, what, words, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["aawm", "evaluate", "own_code:Mine", "--device", "cpu"])
    module(FAULTS[words] + "def Mine(*_): pass\n")
    with pytest.raises(ModelContractError, match=words) as fault:
        READERS[what]("own_code:Mine")
    assert fault.value.exit_code == 4 and "\n" not in str(fault.value)


@pytest.mark.parametrize("what", READERS)
def test_a_module_that_prints_is_used_with_a_warning(module, what, capsys):
    module("print('hello')\nclass Mine:\n    name, needs = 'mine', 'states'\n    def surprise(self, batch): pass\n")
    with pytest.warns(UserWarning, match="own_code prints where it is imported .hello."):
        try:
            READERS[what]("own_code:Mine")
        except ModelContractError as fault:
            assert what == "model" and "is not a subclass" in str(fault)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("what", READERS)
@pytest.mark.parametrize("name", ["own_code:Absent", "nowhere_at_all:Mine", ":Mine", "own_code:"])
def test_a_name_that_is_not_there(module, what, name):
    module("")
    with pytest.raises(UsageError, match=f"cannot find {what} '{name}'") as fault:
        READERS[what](name)
    assert "\n" not in str(fault.value)
