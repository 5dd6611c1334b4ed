"""The types of the library are true: every code of mypy is on, for every module; and an editor finds no fault of ours in a user's script."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import mypy.api
import pytest

from aawm.tests.conftest import FIXTURES, ROOT


def test_types_are_true(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    report, faults, code = mypy.api.run([])
    assert code == 0, report[-4000:] + faults


def faults_of(folder: Path) -> list[str]:
    "What pyright finds in the scripts of a folder."
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard"}))
    command = [Path(sys.executable).with_name("basedpyright"), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1, done.stderr
    return [f"{one['range']['start']['line'] + 1}: {one['message']}" for one in report["generalDiagnostics"]]


@pytest.mark.slow
def test_pyright_finds_no_fault_in_a_users_script(tmp_path):
    shutil.copy(FIXTURES / "user_script.txt", tmp_path / "user_script.py")
    assert not faults_of(tmp_path)


def test_pyright_finds_a_wrong_call(tmp_path):
    (tmp_path / "wrong.py").write_text("from aawm import simulate\n\nsimulate(seed='one')\n")
    assert faults_of(tmp_path)
