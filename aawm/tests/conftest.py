"""What several test modules share."""

import os
import shutil
import signal
import sys
from datetime import date
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

# before torch is imported: threads of tests that run side by side wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")

# no test depends on the clock
settings.register_profile("aawm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("aawm")

FIXTURES = Path(__file__).parent / "fixtures"
ROOT = Path(__file__).parents[2]  # of the repository

# minutes each: begun last, one worker would wait for the other, or both would make what their tests share
FIRST = ("test_paper.py", "test_wheel.py", "test_study.py", "test_sim.py")


def pytest_collection_modifyitems(items):
    "The longest tests first."
    items.sort(key=lambda item: item.path.name not in FIRST)


def few(values, count: int = 1) -> list:
    "Parameters of a test: the first ones by day, all at night."
    return [pytest.param(value, marks=[pytest.mark.slow] * (place >= count)) for place, value in enumerate(values)]


def turn(values, days: int) -> list:
    "Those whose turn it is today: each comes once in so many days."
    return [value for place, value in enumerate(values) if (place + date.today().toordinal()) % days == 0]


def pytest_runtest_teardown():
    "Code that one test names as its own is trusted in no other test."
    if "aawm.on_demand" in sys.modules:
        sys.modules["aawm.on_demand"].NAMED.clear()


def leave(*words) -> int:
    "Run the program as a shell does; its exit code."
    from aawm import cli

    with pytest.raises(SystemExit) as end:
        cli.main([*map(str, words)])
    return int(end.value.code or 0)


# tests in the background are told to ignore Ctrl-C, and children inherit that
heed_interrupt = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)

HOW = "a browser test needs playwright and Chromium: pip install --editable '.[browser]', then apt-get install chromium, or playwright install chromium"


def note_requests(page, where: list, *here: str) -> None:
    "Note each address that a page asks for and that does not begin with one of `here`, or is in the page itself."
    own = (*here, "data:", "blob:")
    page.on("request", lambda request: None if request.url.startswith(own) else where.append(request.url))


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    "A store that all tests of a run read and none changes, made by the worker that asks first."
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent

    def store(name: str, make, **options) -> Path:
        with FileLock(root / f"{name}.lock"):
            path = root / name
            return path if (path / "manifest.json").exists() else make(path, workers=1, progress=False, **options)

    return store


@pytest.fixture(scope="session")
def arena_store(made_once):
    from aawm.data import generate

    return made_once("arena", generate, trials=40, seed=0)


@pytest.fixture(scope="session")
def other_store(made_once):
    from aawm.data import generate

    return made_once("others", generate, trials=9, seed=4)


@pytest.fixture(scope="session")
def visit_store(made_once):
    "A test of six visits: eleven groups of eighteen."
    from aawm.data import generate_visits

    return made_once("visits", generate_visits, subjects=198, scenes=31, test=True, seed=11, fidelity="planar")


@pytest.fixture(scope="session")
def browser():
    "A headless Chromium; the test is skipped, with what to install, where there is none."
    playwright = pytest.importorskip("playwright.sync_api", reason=HOW)
    found = next(
        filter(
            None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))
        ),
        None
    )
    with playwright.sync_playwright() as started:
        try:
            opened = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except playwright.Error as fault:
            pytest.skip(f"{HOW} ({str(fault).splitlines()[0]})")
        yield opened
        opened.close()
