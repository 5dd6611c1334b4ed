"""The page of lost trials: its rows are the outcomes, and a click plays the rollouts that were scored."""

import pytest

from aawm import cli
from aawm.errors import UsageError
from aawm.evaluation import Protocol, evaluate, read_evaluation, save
from aawm.runs.view import trial_table, view_page
from aawm.tests.conftest import note_requests


@pytest.fixture(scope="module")
def place(tmp_path_factory, arena_store):
    folder = tmp_path_factory.mktemp("viewed")
    (folder / "trials").symlink_to(arena_store)
    for name in ("nearest_carries", "frozen_world"):
        save(evaluate(name, folder / "trials", Protocol(("single_goal", "pickup"), split=None), progress=False), folder / name)
    return folder


def test_a_click_plays_what_was_scored(browser, place, tmp_path):
    words = ["view", *(str(place / name) for name in ("nearest_carries", "frozen_world")), "nearest_carries", "frozen_world"]
    with pytest.raises(SystemExit) as end:
        cli.main([*words, "--trials", str(place / "trials"), "--out", str(tmp_path / "view.html")])
    assert not end.value.code
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    outside: list = []
    faults: list = []
    note_requests(page, outside, "file:")
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.goto((tmp_path / "view.html").as_uri())
    lines = page.locator("tbody tr")
    every = lines.count()
    assert every == page.locator("tr.plays").count() > 3
    lines.first.click()
    page.wait_for_selector("figure:nth-of-type(3)")
    assert [name.split("\n")[0].rpartition(" ")[0] for name in page.locator("figcaption").all_inner_texts()][1:] == ["nearest_carries", "frozen_world"]
    page.keyboard.press("ArrowDown")
    page.wait_for_function("document.querySelectorAll('tbody tr')[1].getAttribute('aria-current') === 'true'")
    assert page.locator(".player button").first.inner_text() == "Pause" and page.locator("figure").count() == 3
    page.locator("select").nth(3).select_option(index=1)
    table = trial_table({name: read_evaluation(place / name) for name in ("nearest_carries", "frozen_world")})
    assert lines.count() == (table["nearest_carries wrong"] > 0).sum() < every == len(table)
    assert not outside and not faults
    page.close()


def test_evaluations_of_other_trials_or_too_many_are_refused(place):
    one, other = (read_evaluation(place / name) for name in ("nearest_carries", "frozen_world"))
    other.record["data_hash"] = "0" * 64
    with pytest.raises(UsageError, match="different trials"):
        trial_table({"one": one, "other": other})
    with pytest.raises(UsageError, match="one or two evaluations"):
        view_page([place / "nearest_carries", "sgnet", "oracle"])
