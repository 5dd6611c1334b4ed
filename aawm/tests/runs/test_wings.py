"""A miniature of each wing's paper, from its first data to every figure, through the program itself."""

import json
import os
import shutil
import subprocess
import sys

import matplotlib.image
import pandas as pd
import pytest

from aawm.runs import plan, profile_values
from aawm.runs.manifest import read_paper
from aawm.tests.conftest import ROOT

FIGURES = {
    "infant": "stills_bib stills_social learning_check accuracy balanced controls privileges architecture sampling ledger arena_violations",
    "marple": "replay accuracy preferences evidence learned ledger",
}


@pytest.mark.slow
@pytest.mark.parametrize("paper", FIGURES)
def test_every_figure_is_made(paper, tmp_path):
    shutil.copytree(ROOT / "nbs", tmp_path / "nbs", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    shutil.copytree(ROOT / "data/weights", tmp_path / "data/weights")
    shutil.copy(ROOT / "settings.ini", tmp_path)
    words = [
        sys.executable, "-m", "aawm.cli", "reproduce", "--paper", paper, "--profile", "smoke", "--no-progress"
    ]
    run = subprocess.run(
        words, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=3600
    )
    assert run.returncode == 0, (run.stdout + run.stderr)[-3000:]
    manifest = read_paper(paper)
    assert run.stdout.count("done in") == len(plan(profile_values("smoke", manifest=manifest), manifest))
    folder = tmp_path / "figures" / paper / "smoke"
    for name in FIGURES[paper].split():
        picture = matplotlib.image.imread(folder / f"{name}.png")
        assert min(picture.shape[:2]) > 200 and picture[..., :3].std() > 0.05, f"{name} is empty"
        record = json.loads((folder / f"{name}.json").read_text())
        assert {
            "seed", "settings", "versions", "commit", "alt", "inputs_sha256"
        } <= set(record) and record["alt"], name
        # infant figures are of many stores: `inputs_sha256` names them
        assert paper == "infant" or len(record["data_hash"]) == 64, name
        assert len(pd.read_csv(folder / f"{name}.csv")) and (
            folder / f"{name}.pdf"
        ).read_bytes().startswith(b"%PDF")
