"""The wheel works alone: built, installed into a fresh environment, and used outside of the clone."""

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from aawm.tests.conftest import ROOT

SOURCES = (
    "aawm", "nbs", "data/weights", "settings.ini", "setup.py", "pyproject.toml", "MANIFEST.in", "README.md",
    "LICENSE"
)
ALONE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    "The wheel, built without a network from a copy of the sources."
    place = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        source = ROOT / name
        copy = place / "sources" / name
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
        elif source.is_file():
            shutil.copy(source, copy)
    words = [
        "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", place,
        place / "sources"
    ]
    subprocess.run([sys.executable, "-m", "pip", *words], env=ALONE, check=True)
    return next(place.glob("*.whl"))


@pytest.fixture(scope="module")
def program(wheel, tmp_path_factory):
    "The program of a fresh environment, in which the wheel alone is new: what it requires is borrowed from this one."
    place = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    python = place / "bin" / "python"
    install = ["--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run([sys.executable, "-m", "pip", *install], env=ALONE, check=True)
    libraries = next(place.glob("lib/python*/site-packages"))
    (libraries / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return place / "bin" / "aawm"


def call(program, folder, *words) -> str:
    "What a program says, run in a folder outside of the clone."
    done = subprocess.run(
        [program, *map(str, words)], cwd=folder, env=ALONE, capture_output=True, text=True, timeout=3600
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_notebooks_travel_and_fixtures_do_not(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    notebooks = {
        f"aawm/{path.relative_to(ROOT).as_posix()}"
        for path in (ROOT / "nbs").rglob("*.ipynb")
        if ".ipynb_checkpoints" not in path.parts
    }
    papers = {f"aawm/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "nbs").rglob("*.yaml")}
    assert notebooks | papers <= set(names) and "aawm/py.typed" in names
    assert not [name for name in names if "tests/" in name or "__pycache__" in name]


def test_the_metadata_stands_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = email.message_from_bytes(archive.read(next(name for name in names if name.endswith("/METADATA"))))
    assert {"Source", "Documentation", "Issues"} <= {line.partition(",")[0] for line in about.get_all("Project-URL")}
    assert "Typing :: Typed" in about.get_all("Classifier") and "benchmark" in about["Keywords"]
    licenses = [name for name in names if "/licenses/" in name]
    assert len(about.get_all("License-File")) == 2 and any("jspsych" in name for name in licenses)
    links = re.findall(r"\]\((.*?)\)", about.get_payload())
    assert len(links) > 20 and all(link.startswith(("https://", "#")) for link in links)
    pictures = re.findall(r"!\[[^\]]*\]\((.*?)\)", about.get_payload())
    assert len(pictures) > 3 and not [link for link in pictures if "/blob/" in link]


def test_the_program_starts_outside_of_the_clone(program, tmp_path):
    place = call(program.with_name("python"), tmp_path, "-c", "import aawm; print(aawm.__file__)")
    assert Path(place.strip()).is_relative_to(program.parents[1]), "the wheel's own, not the clone's"
    assert (call(program, tmp_path, "--version").startswith("aawm ") and "--help" in call(program, tmp_path, "-h"))


@pytest.mark.slow
def test_paper_and_course_are_made_in_the_current_folder(program, tmp_path):
    call(program, tmp_path, "reproduce", "--profile", "smoke", "--no-progress")
    call(program, tmp_path, "lessons", "--out", "course")
    made = tmp_path / "figures" / "smoke"
    assert {"fig1.png", "fig3.png", "fig3.csv", "claims.csv"} <= {path.name for path in made.iterdir()}
    assert "version " in (made / "fig3.json").read_text()
