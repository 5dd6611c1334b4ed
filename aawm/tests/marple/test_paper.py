"""The wing's commands, through the program itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from aawm import cli
from aawm.errors import AawmError, BadData, ModelContractError

ROOT = Path(__file__).parents[3]
DATA = Path(__file__).parents[1] / "data" / "marple"


def command(*words):
    done = CliRunner().invoke(cli.app, ["marple", *map(str, words)])
    if done.exception and not isinstance(done.exception, (AawmError, SystemExit)):
        raise done.exception
    return done


def command_fault(*words):
    raise command(*words).exception


def test_import_generate_infer(tmp_path):
    configurations = sorted(DATA.glob("*.json"))
    assert "Kitchen" in command("import", *configurations, "--out", tmp_path / "houses").output
    made = command("generate", tmp_path / "houses", "--pairs", 2, "--seed", 3, "--no-progress")
    assert made.exit_code == 0 and "6 pairs in 3 houses" in made.output
    scored = command("infer", tmp_path / "houses", "--method", "exact", "--out", tmp_path / "scored.csv", "--no-progress")
    assert scored.exit_code == 0 and len(pd.read_csv(tmp_path / "scored.csv")) == 6 * 11
    assert "whole" in command("verify", tmp_path / "houses").output
    with pytest.raises(BadData, match="--all-missions"):
        command_fault("infer", tmp_path / "houses", "--prior", "open")
    with pytest.raises(ModelContractError, match="TypeError"):
        command_fault("infer", tmp_path / "houses", "--method", "math:sqrt", "--no-progress")


@pytest.mark.parametrize("words", [("infer", "nowhere"), ("infer", ".", "--method", "exakt"), ("generate", "here", "--split", "tset"), ("verify", "."),
                                   ("import", "none.json"), ("generate", "here", "--scenarios", "murder"), ("infer", ".", "--prior", "most"),
                                   ("infer", ".", "--prior", "2"), ("infer", ".", "--variant", "X")],
                         ids=" ".join)
def test_bad_input_gets_one_line(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fault = command(*words).exception
    assert isinstance(fault, AawmError) and str(fault) and "\n" not in str(fault)
    assert not list(tmp_path.iterdir())


def test_the_program_starts_without_the_wing():
    words = "import sys, aawm.cli; print(sorted(name for name in sys.modules if name in ('numpy', 'torch', 'xarray', 'matplotlib')))"
    found = subprocess.run([sys.executable, "-c", words], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert found.stdout.strip() == "[]", found.stdout + found.stderr
