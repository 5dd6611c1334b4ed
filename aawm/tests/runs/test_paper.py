"""A miniature of the paper and of each wing's, from first data to every figure, through the program itself."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.image
import pandas as pd
import pytest

from aawm.files import read_json
from aawm.runs import plan, profile_values, run_notebook
from aawm.runs.manifest import read_paper
from aawm.runs.sources import versions
from aawm.tests.conftest import ROOT

FIGURES = ("fig1", "fig2", "fig3", "fig4", "fig5", "swm3", "swm4", "claims")


def repository(folder: Path) -> Path:
    "A copy of what a run reads, so that it leaves nothing in the working tree."
    shutil.copytree(ROOT / "nbs", folder / "nbs", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    shutil.copy(ROOT / "settings.ini", folder)
    return folder


QUICKER = {
    "trials": "54", "test_trials": "54", "fidelity": "planar",
    "models": "multistep_predictor,oracle", "plain_worlds": "frozen_world", "visit_worlds": "ideal_observer", "figures": "fig3,claims"
}


def start(folder: Path, settings: dict, *words: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "aawm.cli", "reproduce", "--profile", "smoke", "--no-progress", *words]
    command += [f"--set={name}={value}" for name, value in settings.items()]
    return subprocess.Popen(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True
    )


def finish(folder: Path, settings: dict, *words: str) -> str:
    run = start(folder, settings, *words)
    output, _ = run.communicate(timeout=3600)
    assert run.returncode == 0, output[-3000:]
    return output


def checked_record(folder: Path, name: str) -> dict:
    "The record of a figure that has a picture, a table and a page."
    picture = matplotlib.image.imread(folder / f"{name}.png")
    assert min(picture.shape[:2]) > 200 and picture[..., :3].std() > 0.05, f"{name} is empty"
    assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF") and (folder / f"{name}.ipynb").is_file()
    assert len(pd.read_csv(folder / f"{name}.csv")) > 0
    record = json.loads((folder / f"{name}.json").read_text())
    assert {"seed", "settings", "versions", "commit", "inputs_sha256"} <= set(record) and record["alt"], name
    return record


def check_figures(folder: Path, profile: str, models: list, names: tuple = FIGURES) -> None:  # models and plain worlds
    for name in names:
        record = checked_record(folder, name)
        assert len(record["data_hash"]) == 64 and record["settings"]["profile"] == profile, name
    table = pd.read_csv(folder / "fig3.csv")
    assert set(models) - {"frozen_world", "constant_velocity"} <= set(table.model) <= set(models), "worlds that deliver nothing have no row"
    assert set(table.panel.dropna()) == {"A", "B", "C"}
    assert table.value.dropna().between(0, 1).all()


def test_figures_are_made_and_a_second_run_finds_everything_done(tmp_path):
    "Figures on few trials in the plane, with two models; the next test has all of them."
    folder = repository(tmp_path)
    said = finish(folder, QUICKER)
    models = QUICKER["models"].split(",")
    plain_worlds = QUICKER["plain_worlds"].split(",")
    figures = QUICKER["figures"].split(",")
    changes = {"models": models, "plain_worlds": plain_worlds, "visit_worlds": ["ideal_observer"], "figures": figures}
    assert said.count("done in") == len(plan(profile_values("smoke") | changes))
    (made,) = (folder / "figures").glob("smoke-custom-*")
    check_figures(made, made.name, models + plain_worlds, figures)
    assert "done in" not in finish(folder, QUICKER)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = repository(tmp_path_factory.mktemp("undisturbed") / "here")
    finish(folder, {})
    return folder


@pytest.mark.slow
def test_killed_anywhere_it_ends_in_the_same_figures(undisturbed, tmp_path):
    folder = repository(tmp_path / "killed")
    rng = random.Random(0)
    for _ in range(4):
        run = start(folder, {})
        time.sleep(rng.uniform(5, 40))
        run.send_signal(signal.SIGKILL)
        run.communicate()
    finish(folder, {})
    values = profile_values("smoke")
    check_figures(folder / "figures/smoke", "smoke", values["models"] + values["plain_worlds"])
    for name in FIGURES:
        for kind in ("png", "pdf", "csv"):
            path = f"figures/smoke/{name}.{kind}"
            assert (folder / path).read_bytes() == (undisturbed / path).read_bytes(), path


@pytest.mark.slow
def test_the_page_of_recipes_is_drawn_from_its_table(tmp_path):
    "Its assertions hold for the committed rows; without a table there is no page."
    page = ROOT / "nbs/studies/recipes.ipynb"
    run_notebook(page, tmp_path / "page.ipynb", {})
    rows = pd.read_csv(ROOT / "figures/studies/recipes.csv")
    older = ["recipe", "steps", "windows", "trials", "commit", "seconds"]  # not told of rules and of the first trainings
    assert len(rows) and rows.drop(columns=older).filter(regex="^(?!train_|validation_loss)").notna().all(axis=None)
    assert rows.dropna(subset="commit").notna().all(axis=None)
    with pytest.raises(Exception, match="none.csv"):
        run_notebook(page, tmp_path / "none.ipynb", {"table": str(tmp_path / "none.csv")})


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["aawm", "infant", "marple"])
def test_committed_figures_are_of_the_code_that_would_draw_them_today(paper):
    "Their records hold the job's key: of its notebook, settings, code and all that it needs."
    manifest = read_paper(paper)
    checked = 0
    for profile in manifest["profiles"]:
        for job in plan(profile_values(profile, manifest=manifest), manifest):
            for path in [ROOT / path for path in job.outputs if path.startswith("figures") and path.endswith(".json")]:
                record = read_json(path, {})
                # other versions of libraries are another key, and no fault of the figure
                if record and record["versions"].items() >= versions(job.packages).items():
                    assert record.get("key") == job.key, f"{path.relative_to(ROOT)} is older than the code that draws it"
                    checked += 1
    if not checked:
        pytest.skip("committed figures are of other versions of libraries")


WINGS = {
    "infant": "stills_bib stills_social accuracy balanced controls ledger",
    "marple": "evidence accuracy preferences slips ledger",
}


@pytest.mark.slow
@pytest.mark.parametrize("paper", WINGS)
def test_every_figure_of_a_wing_is_made(paper, tmp_path):
    folder = repository(tmp_path)
    shutil.copytree(ROOT / "data/weights", folder / "data/weights")
    said = finish(folder, {}, "--paper", paper)
    manifest = read_paper(paper)
    assert said.count("done in") == len(plan(profile_values("smoke", manifest=manifest), manifest))
    for name in WINGS[paper].split():
        record = checked_record(folder / "figures" / paper / "smoke", name)
        # infant figures are of many stores: `inputs_sha256` names them
        assert paper == "infant" or len(record["data_hash"]) == 64, name
