"""Every library notebook runs from top to bottom, and export and clean change nothing."""

import ast
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbdev.test
import pytest
from aawm.tests.conftest import ROOT, turn

MAKERS = ("pipeline", "paper", "studies", "benchmarks")  # run with parameters, by `aawm reproduce` or by hand
# train and evaluate models: those of more than half a minute of a core stand in LONG and take turns, some each day
TEACHERS = ("lessons", "guides")
TURNS = 7
# five seconds of a core and more each, three quarters of the time of all pages: they run in `make test-all`
LONG = """
data/05_card infant/05_bib_sets infant/10_observers infant/12_scores
runs/05_jobs viz/05_player
data/making/02_generate evaluation/01_tasks evaluation/02_rollouts evaluation/04_scores
evaluation/06_results evaluation/10_exchange infant/11_reasoners infant/13_released
infant/16_training infant/18_figures infant/23_commands infant/14_regions
marple/19_figures models/02_multistep models/03_rssm models/04_transformer models/05_sgnet
models/06_oracle models/10_your_own_model models/event/07_model runs/07_play study/00_overview
study/01_stimuli study/03_build study/04_score study/05_commands training/00_overview training/06_presets
training/07_check viz/06_marks
study/06_tables study/07_challenge viz/03_figures runs/11_view
models/00_overview models/event/00_overview models/event/06_sampling evaluation/00_overview evaluation/11_worlds
evaluation/13_visits data/making/04_visits
guides/03_a_new_evaluation guides/04_in_one_figure guides/06_your_own_infant_task
lessons/04_a_first_world_model lessons/05_when_is_the_goal_knowable
lessons/07_defend_a_claim lessons/09_what_surprises_a_network lessons/10_are_you_better
lessons/11_copies lessons/12_checks guides/13_a_study_in_class
00_errors 90_cli runs/00_overview runs/03_notebooks evaluation/12_compare marple/15_policies marple/18_claims
marple/22_commands marple/24_released models/12_chooser infant/08_episodes infant/15_objects
training/03_loop training/05_fitting viz/04_scenes sim/07_trial
"""
ELSEWHERE = {*MAKERS, ".ipynb_checkpoints"}
FOUND = sorted(
    path
    for path in (ROOT / "nbs").rglob("*.ipynb")
    if not ELSEWHERE & set(path.relative_to(ROOT / "nbs").parts)
)
LIBRARY = [pytest.param(path) for path in FOUND]


def runs_long(path: Path) -> bool:
    "Whether only `make test-all` runs a page today."
    name = path.relative_to(ROOT / "nbs").with_suffix("").as_posix()
    teaching = [one for one in LONG.split() if one.startswith(TEACHERS)]
    return name in LONG.split() and name not in turn(teaching, TURNS)


RUN = [pytest.param(path, marks=pytest.mark.slow if runs_long(path) else ()) for path in FOUND]
PRELOADED = [
    "matplotlib.pyplot", "nbdev.test", "torch", "xarray", "zarr", "pyarrow.parquet",
    "mujoco", "nbformat", "papermill"
]
PRELOADED += [
    "aawm.evaluation", "aawm.training", "aawm.viz.figures", "aawm.sim", "aawm.infant", "aawm.marple",
    "aawm.runs", "aawm.tests.test_notebooks"
]
PROJECT = ["nbs", "aawm", "settings.ini", "setup.py", "README.md"]


def run_page(notebook: Path, log: Path) -> None:
    "Run all cells in this process, and leave what they print and where one fails."
    os.chdir(ROOT)
    with open(log, "w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    ok, _ = nbdev.test.test_nb(notebook, basepath=ROOT)
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(not ok)


@pytest.fixture(scope="module")
def fork():
    "Processes that have the heavy libraries and the library already: to import them costs more than most pages."
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def test_long_pages_are_there():
    names = {path.relative_to(ROOT / "nbs").with_suffix("").as_posix() for path in FOUND}
    assert set(LONG.split()) <= names


@pytest.mark.parametrize("notebook", RUN, ids=lambda path: path.relative_to(ROOT / "nbs").as_posix())
def test_notebook_runs(notebook, fork, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # tests run side by side
    process = fork.Process(target=run_page, args=(notebook, tmp_path / "log"))
    process.start()
    process.join(1800)
    process.kill()
    assert process.exitcode == 0, (tmp_path / "log").read_text()[-6000:]


def shows(source: str) -> bool:
    "Whether a cell must show something: it prints outside of all blocks, or ends with a name."
    body = ast.parse("\n".join(line for line in source.splitlines() if not line.startswith(("%", "!")))).body
    lone = [one.value for one in body if isinstance(one, ast.Expr)]
    printed = any(isinstance(one, ast.Call) and getattr(one.func, "id", "") == "print" for one in lone)
    return printed or (bool(lone) and isinstance(body[-1], ast.Expr) and isinstance(lone[-1], ast.Name))


@pytest.mark.parametrize("notebook", LIBRARY, ids=lambda path: path.relative_to(ROOT / "nbs").as_posix())
def test_what_a_page_prints_is_stored(notebook):
    "The site shows stored outputs only."
    cells = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    silent = [cell["id"] for cell in cells if shows("".join(cell["source"])) and not cell["outputs"]]
    assert silent == [], f"execute {notebook.relative_to(ROOT)}"


def contents(root: Path) -> dict:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for folder in ("nbs", "aawm")
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in (".py", ".ipynb") and ".ipynb_checkpoints" not in path.parts
    }


def test_export_and_clean_change_nothing(tmp_path):
    for name in PROJECT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
        elif source.exists():
            shutil.copy(source, tmp_path / name)
    before = contents(tmp_path)
    for tool in ("nbdev_export", "nbdev_clean"):
        subprocess.run(
            [str(Path(sys.executable).parent / tool)], cwd=tmp_path, check=True, capture_output=True,
            env=os.environ | {"PYTHONPATH": str(tmp_path)}
        )
    after = contents(tmp_path)
    assert sorted(before) == sorted(after)
    assert [name for name in before if before[name] != after[name]] == []


def test_readme_is_the_index_page():
    made = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "readme"], cwd=ROOT, capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip("make is not installed")
    command = next(line for line in made.stdout.splitlines() if "nbconvert" in line).rsplit("> .part-README.md", 1)[0]
    command = command.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    page = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert page == (ROOT / "README.md").read_text(encoding="utf-8"), "run `make readme`"
