"""A miniature of the paper and of each wing's, from first data to every figure, through the program itself."""

import ast
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib.image
import nbformat
import pandas as pd
import pytest

from aawm.files import read_json, write_json
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


def kill_anywhere(folder: Path, undisturbed: Path) -> None:
    "Kill a whole run four times."
    rng = random.Random(0)
    for _ in range(4):
        run = start(folder, {})
        time.sleep(rng.uniform(5, 40))
        run.send_signal(signal.SIGKILL)
        run.communicate()
    finish(folder, {})


def take_workers_away(folder: Path, undisturbed: Path) -> None:
    "Kill the worker of each job after a third of the time that the job takes undisturbed, as a scheduler does that wants its machines back."
    import dask
    from dask.distributed import LocalCluster

    taken = {path.stem: read_json(path)["seconds"] for path in undisturbed.glob("data/smoke*/done/*.json")}
    begun: dict[str, float] = {}
    lost = set()
    workers: list[subprocess.Popen] = []
    # as `connect` sets it, for a scheduler whose machines come and go
    with dask.config.set({"distributed.scheduler.allowed-failures": 30}), LocalCluster(n_workers=0, protocol="tcp://", dashboard_address=None, silence_logs=logging.CRITICAL) as cluster:
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--nthreads=1", "--no-nanny", "--no-dashboard", "--memory-limit=0"]
        run = start(folder, {}, "--scheduler", cluster.scheduler_address)
        while run.poll() is None:
            workers = [process for process in workers if process.poll() is None]
            if len(workers) < 2:  # as a queue gives new ones
                workers.append(subprocess.Popen(worker, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            for holder in folder.glob("data/smoke*/running/*/.holder.json"):
                name = holder.parent.name
                process = next((one for one in workers if one.pid == read_json(holder, {}).get("process")), None)
                if process and name not in lost and time.monotonic() - begun.setdefault(name, time.monotonic()) > taken[name] / 3:
                    process.kill()
                    lost.add(name)
            time.sleep(0.02)
        for process in workers:
            process.terminate()
            process.wait()
    assert run.returncode == 0, run.stdout.read()[-3000:]
    assert len(lost) > len(taken) // 2


@pytest.mark.slow
@pytest.mark.parametrize("disturb", [kill_anywhere, take_workers_away])
def test_disturbed_anywhere_it_ends_in_the_same_figures(undisturbed, tmp_path, disturb):
    folder = repository(tmp_path / "disturbed")
    disturb(folder, undisturbed)
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
    assert len(rows) and rows.drop(columns=["settings", "recipe"], errors="ignore").notna().all(axis=None)
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


def test_the_front_page_takes_no_cost_of_figures_that_are_not_committed(tmp_path):
    cells = nbformat.read(ROOT / "nbs" / "index.ipynb", as_version=4).cells
    source = next(cell.source for cell in cells if "def cost_of" in cell.source)
    function = next(part for part in ast.parse(source).body if getattr(part, "name", "") == "cost_of")
    names = {"subprocess": subprocess, "read_json": read_json, "resolve": lambda path: tmp_path / path}
    exec(ast.unparse(function), names)
    for profile in ("quick", "smoke"):
        write_json(tmp_path / f"figures/{profile}/cost.json", {"minutes": 3})
    for words in (["init", "--quiet"], ["add", "figures/quick"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert names["cost_of"]("quick") == {"minutes": 3} and names["cost_of"]("smoke") == {}
