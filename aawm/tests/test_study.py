"""Studies of people: the page runs in a browser and keeps its data, and what is scored is what was answered."""

import csv
import json
import re

import numpy as np
import pandas as pd
import pytest

from aawm import cli
from aawm.data import generate
from aawm.errors import BadData, UsageError
from aawm.evaluation import SCORINGS, find_tasks, trial_set
from aawm.study.build import asset, build_study, study_words
from aawm.study.score import person_outcomes, read_answers, read_key, score_answers, score_study, simulate_answers, write_answers
from aawm.study.stimuli import balanced, goal_items


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    "A study of eight trials, played fast."
    place = tmp_path_factory.mktemp("a study")
    generate(place / "trials", 81, seed=0, workers=1, progress=False)
    build_study(place / "trials", place / "study", trials=8, seed=1, speed=50)
    return place


@pytest.fixture(scope="module")
def key(study):
    return read_key(study / "study")


def content(study) -> dict:
    text = (study / "study/index.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="study">(.*?)</script>', text, re.DOTALL)[1])


def leave(*words) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main(["study", *map(str, words)])
    return end.value.code or 0


def test_contexts_and_truths_are_those_that_models_are_scored_on(study, key):
    test = trial_set(study / "trials", None)
    plans = {task: find_tasks([task])[0].plan(test, SCORINGS["strict"]) for task in ("single_goal", "multi_goal")}
    shown = {item["trial"]: item for item in content(study)["items"]}
    seen = 0
    for item in (item for item in key.items if item.kind == "test"):
        plan = plans[item.task]
        rows = plan[(plan.row == np.flatnonzero(test.trial == item.store_trial)[0]) & (plan.left_out == "")]
        assert [(row.object, row.target, row.truth) for row in item.rows] == [(f"obj{row.object}", row.target, row.truth) for row in rows.itertuples()]
        assert shown[item.trial]["context"] == rows.context.iloc[0]
        seen += 1
    assert seen == 8


def test_the_page_holds_no_future_and_no_truth(study):
    for item in content(study)["items"]:
        steps = {len(track) for tracks in item["tracks"].values() for track in tracks}
        assert steps == {item["context"]} or item["kind"] == "practice"
        assert "happened" not in item or item["kind"] == "practice"
        assert not {"rows", "scenario", "behavior", "store_trial"} & set(item)


def test_the_page_loads_and_sends_nothing(study):
    text = (study / "study/index.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text and "connect-src" not in text and not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=", text)
    assert sum(path.stat().st_size for path in (study / "study").iterdir()) < 3e6


def test_truths_and_scenarios_are_balanced(study):
    test = trial_set(study / "trials", None)
    chosen = balanced(goal_items(test, "single_goal"), test.scenario, 6, np.random.default_rng(3))
    for values in ([item.happened for item in chosen], [test.scenario[item.row] for item in chosen]):
        counts = pd.Series(values).value_counts()
        assert counts.max() - counts.min() <= 1


def test_scores_are_those_computed_by_hand(key, study, tmp_path):
    files = [write_answers(tmp_path / f"{name}.csv", simulate_answers(key, name, seed)) for seed, name in enumerate("abc")]
    outcomes = person_outcomes(read_answers(files, key), key)
    scores = score_answers(outcomes).query("behavior == 'all'").set_index(["task", "target", "metric"]).value
    rows = [row for file in files for row in csv.DictReader(file.open())]
    named = {(row["participant"], row["trial"], row["answer"]) for row in rows}
    hits = [(name, item.trial, row.object) in named for name in "abc" for item in key.items if item.task == "single_goal" for row in item.rows if row.truth]
    false = [(name, item.trial, row.object) in named for name in "abc" for item in key.items if item.task == "single_goal" for row in item.rows if not row.truth]
    assert scores["single_goal", "object", "recall"] == np.mean(hits) and scores["single_goal", "object", "false_positive"] == np.mean(false)
    part = outcomes[outcomes.target == "3rd"]
    assert scores["multi_goal", "3rd", "brier"] == pytest.approx(np.mean((part.score - part.truth) ** 2))


def test_who_knows_all_is_right_and_who_clicks_by_chance_is_left_out(key, study, tmp_path):
    knows = simulate_answers(key, "knows", 0, skill=1.0)
    wrong = [row | {"answer": "none", "participant": "wrong"} if row["kind"] == "catch" else row | {"participant": "wrong"} for row in knows]
    files = [write_answers(tmp_path / "knows.csv", knows), write_answers(tmp_path / "wrong.json", wrong)]
    scores, people = score_study(study / "study", files, tmp_path / "people")
    assert people.included.to_dict() == {"knows": True, "wrong": False} and set(scores.variant) == {"n = 1"}
    values = scores.query("behavior == 'all'").groupby("metric").value
    assert values.min()["recall"] == 1 and values.max()["false_positive"] == 0 and values.max()["brier"] < 0.2
    with pytest.raises(BadData, match="nobody"):
        score_study(study / "study", files[1:], tmp_path / "none")
    assert not (tmp_path / "none").exists()


DAMAGES = {  # what is wrong with a file -> what is changed in its rows, and what is said
    "another study": (lambda rows: [row | {"study": "0" * 16} for row in rows], "is of study"),
    "another seed": (lambda rows: [row | {"seed": 9} for row in rows], "seed 9"),
    "too sure": (lambda rows: [rows[0] | {"confidence": 101}, *rows[1:]], "confidence"),
    "no number": (lambda rows: [rows[0] | {"rt": "nan"}, *rows[1:]], "rt"),
    "another object": (lambda rows: [rows[0] | {"answer": "obj9"}, *rows[1:]], "answer"),
    "another trial": (lambda rows: [rows[0] | {"trial": "t999"}, *rows[1:]], "t999"),
    "a row twice": (lambda rows: [rows[0], *rows], "cannot have answered"),
    "not whole": (lambda rows: rows[:-1], "did not answer all"),
    "a formula for a name": (lambda rows: [row | {"participant": "=1+1"} for row in rows], "participant"),
    "no answers": (lambda rows: [row | {"row": "other"} for row in rows], "no answers"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("ending", ["csv", "json"])
def test_a_damaged_or_foreign_file_is_refused_in_one_line(key, study, tmp_path, capsys, damage, ending):
    change, words = DAMAGES[damage]
    whole = write_answers(tmp_path / "whole.csv", simulate_answers(key, "whole", 1))
    file = write_answers(tmp_path / f"bad.{ending}", change(simulate_answers(key, "bad")))
    assert leave("score", study / "study", whole, file, "--out", tmp_path / "people") == 3
    said = capsys.readouterr().err.strip()
    assert words in said and f"bad.{ending}" in said and "\n" not in said and not (tmp_path / "people").exists()


@pytest.mark.parametrize("text", [b"", b"\x89PNG\x00", b'"row","study"\n"answer","', b"a,b\n1,2\n"])
def test_what_is_no_file_of_answers_is_refused(study, tmp_path, capsys, text):
    (tmp_path / "bad.csv").write_bytes(text)
    assert leave("score", study / "study", tmp_path / "bad.csv", "--out", tmp_path / "people") == 3
    assert capsys.readouterr().err.strip().count("\n") == 0 and not (tmp_path / "people").exists()


def test_one_person_in_two_files_is_refused(key, tmp_path):
    files = [write_answers(tmp_path / f"{name}.csv", simulate_answers(key, "same", name)) for name in (1, 2)]
    with pytest.raises(BadData, match="same is also in"):
        read_answers(files, key)


def test_a_translation_has_all_words(tmp_path):
    words = study_words()
    for wrong in ({key: words[key] for key in list(words)[1:]}, words | {"more": "x"}, words | {"code": "no place"}):
        (tmp_path / "words.json").write_text(json.dumps(wrong))
        with pytest.raises(UsageError, match="words.json"):
            study_words(tmp_path / "words.json")


def test_a_consent_text_cannot_run_code(study, tmp_path):
    (tmp_path / "consent.txt").write_text("</script><script>window.ran = 1</script>%study%")
    build_study(study / "trials", tmp_path / "study", trials=2, seed=1, consent=tmp_path / "consent.txt")
    text = (tmp_path / "study/index.html").read_text(encoding="utf-8")
    assert text.count("</script>") == asset("page.html").count("</script>") and "%study%" in text


def run_study(browser, study, tmp_path, wide, high, keyboard, extra="") -> tuple:
    "A whole run in a browser: the rows saved, and how often something lay beside the screen."
    page = browser.new_page(viewport={"width": wide, "height": high}, accept_downloads=True)
    page.set_default_timeout(60_000)
    outside, faults, beside = [], [], 0
    page.on("request", lambda request: outside.append(request.url) if not request.url.startswith(("file:", "blob:", "data:")) else None)
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.goto((study / "study/index.html").as_uri() + extra)
    while not page.locator(".study-download").count():
        page.wait_for_selector(".study-next:not([disabled]), .study-answers button:not([disabled]), .study-download")
        beside += page.evaluate("document.documentElement.scrollWidth > innerWidth")
        options = page.locator(".study-answers button")
        if options.count():
            count = options.count()
            if keyboard:
                page.keyboard.press("n")
                page.keyboard.press("ArrowRight")
                page.keyboard.press("Enter")
            else:
                options.nth(0 if count > 2 else 1).click()
                page.locator(".study-sure input").fill("80")
                page.screenshot(path=tmp_path / f"answer-{wide}.png")
                page.locator(".study-next").click()
        elif page.locator(".study-next").count():
            page.keyboard.press("Enter") if keyboard else page.locator(".study-next").click()
    with page.expect_download() as saving:
        page.keyboard.press("Enter") if keyboard else page.locator(".study-download").click()
    page.screenshot(path=tmp_path / f"end-{wide}.png")
    saved = tmp_path / saving.value.suggested_filename
    saving.value.save_as(saved)
    page.close()
    assert not outside and not faults
    return saved, beside


def test_a_whole_run_in_a_browser_is_saved_and_scored(browser, study, key, tmp_path):
    phone, beside = run_study(browser, study, tmp_path, 400, 720, keyboard=False)
    desk, wide = run_study(browser, study, tmp_path, 1200, 900, keyboard=True, extra="?participant=desk_1")
    assert beside == wide == 0, "nothing lies beside the screen"
    answers = read_answers([phone, desk], key)
    assert set(answers.participant) > {"desk_1"} and answers.groupby("participant").trial.nunique().eq(13).all()
    clicked = answers[answers.participant != "desk_1"]
    assert (clicked[clicked.place == 0].answer == "obj0").all() and (clicked.confidence == 80).all()
    typed = answers[answers.participant == "desk_1"]
    assert (typed.answer == "none").all() and (typed.confidence == 51).all()
    orders = [part[part.kind != "practice"].drop_duplicates("trial").trial.tolist() for _, part in answers.groupby("participant")]
    assert sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1], "an order for each"
    assert person_outcomes(typed, key).prediction.sum() == 0
