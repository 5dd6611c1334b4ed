"""Studies of people: the page runs in a browser and keeps its data, and what is scored is what was answered."""

import csv
import json
import re

import numpy as np
import pandas as pd
import pytest

from aawm.data import generate, open_trials
from aawm.errors import BadData, UsageError
from aawm.evaluation import SCORINGS, find_tasks, trial_set
from aawm.evaluation.visits import read_past
from aawm.events import goals
from aawm.marple import score_pairs
from aawm.marple.pairs import generate_pairs, open_pairs
from aawm.marple.scores import scored_at
from aawm.schema import CONCEPTS, MULTI_GOAL_SCENARIOS, NEW_CONCEPTS, OBJECTS, SINGLE_GOAL_SCENARIOS, VISIT_CONTEXT
from aawm.sim.visit_histories import HISTORY_RULES, ideal
from aawm.study.challenge import challenge_page
from aawm.study.build import build_study, study_words
from aawm.study.score import (
    person_outcomes, rating_outcomes, read_answers, read_key, score_answers, score_study, simulate_answers,
    write_answers,
)
from aawm.study.houses import house_items
from aawm.study.tables import people_curves, people_scores
from aawm.study.stimuli import balanced, task_items
from aawm.tests.conftest import leave, note_requests
from aawm.viz.player import asset
from aawm.tests.study.test_handover import opened, press, warns


@pytest.fixture(scope="module")
def study(tmp_path_factory, visit_store):
    "A study of each task, played fast."
    place = tmp_path_factory.mktemp("a study")
    generate(place / "trials", 32, seed=1, workers=1, fidelity="planar", progress=False, scenarios=(*SINGLE_GOAL_SCENARIOS, MULTI_GOAL_SCENARIOS[0]))
    generate_pairs(place / "runs", 2, houses=2, progress=False)
    build_study(place / "trials", place / "study", trials=8, seed=1, speed=50)
    build_study(place / "trials", place / "pickups", "pickups", trials=4, seed=1, speed=50)
    (place / "visits trials").symlink_to(visit_store)
    build_study(visit_store, place / "visits", "visits", trials=6, seed=1, speed=100)
    build_study(place / "runs", place / "marple", "marple", trials=2, seed=1, speed=100, evidence="V+A+L")
    return place


@pytest.fixture(scope="module")
def key(study):
    return read_key(study / "study")


@pytest.fixture(scope="module")
def houses(study):
    return read_key(study / "marple")


def content(study, name="study") -> dict:
    text = (study / name / "index.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="study">(.*?)</script>', text, re.DOTALL)[1])


@pytest.mark.parametrize("name, tasks", [("study", ("single_goal", "multi_goal")), ("pickups", ("pickup",))])
def test_contexts_and_truths_are_those_that_models_are_scored_on(study, name, tasks):
    test = trial_set(study / "trials", None)
    plans = {task: find_tasks([task])[0].plan(test, SCORINGS["strict"]) for task in tasks}
    shown = {item["trial"]: item for item in content(study, name)["items"]}
    tested = [item for item in read_key(study / name).items if item.kind == "test"]
    for item in tested:
        plan = plans[item.task]
        rows = plan[(plan.row == np.flatnonzero(test.trial == item.store_trial)[0]) & (plan.left_out == "")]
        assert [(row.object, row.target, row.truth) for row in item.rows] == [
            (f"obj{row.object}", row.target, row.truth) for row in rows.itertuples()
        ]
        assert shown[item.trial]["context"] == rows.context.iloc[0]
    assert len(tested) == {"study": 8, "pickups": 4}[name]


def test_houses_stop_where_methods_are_scored_and_no_further(study, houses):
    pairs = open_pairs(study / "runs")
    for item, shown in zip(houses.items, content(study, "marple")["items"], strict=True):
        pair = pairs[item.store_trial]
        assert item.taus == [
            scored_at(pair.horizon)[part] for part in item.parts
        ] and item.culprit == pair.culprit
        tracks = [stage["shapes"][-1][axis] for stage in shown["stages"] for axis in "xy"]
        assert {len(track) for track in tracks if isinstance(track, list)} == {pair.horizon + 1}
        assert ("truth" in shown) == (item.kind == "practice") and "culprit" not in shown
    assert [len(item.taus) for item in houses.items if item.kind != "practice"].count(11) == 2
    tested = [item for item in house_items(pairs, 5, 0) if item.kind == "test"]
    assert len({item.scenario for item in tested}) == 5 and 2 <= sum(item.truth for item in tested) <= 3


def test_each_kind_of_evidence_adds_what_methods_are_told(study, tmp_path):
    for evidence, notes in (("V", set()), ("V+A", {"hear"}), ("V+L", {"say"})):
        build_study(study / "runs", tmp_path / evidence, "marple", trials=2, evidence=evidence)
        assert {
            name for item in content(tmp_path, evidence)["items"] for note in item["notes"] for name in note
        } == notes
    with pytest.raises(UsageError, match="is for marple"):
        build_study(study / "trials", tmp_path / "goals", trials=2, evidence="V+A")


def test_the_page_holds_no_future_and_no_truth(study):
    for item in content(study)["items"]:
        shapes = [shape for stage in item["stages"] for shape in stage["shapes"]]
        steps = {len(shape[name]) for shape in shapes for name in ("x", "y", "turn") if isinstance(shape.get(name), list)}
        assert steps == {item["context"]} or item["kind"] == "practice"
        assert all(when < item["steps"] for shape in shapes for when, _ in shape.get("changes", ()))
        assert "happened" not in item or item["kind"] == "practice"
        assert not {"rows", "scenario", "behavior", "store_trial"} & set(item)


@pytest.mark.parametrize("name", ["study", "pickups", "visits", "marple"])
def test_the_page_loads_and_sends_nothing(study, name):
    text = (study / name / "index.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text and "connect-src" not in text and not re.search(
        r"<(script|link|img|iframe)[^>]*(src|href)=", text
    )
    assert sum(path.stat().st_size for path in (study / name).iterdir()) < 3e6


def answers_of_a_rule(key, pasts, rule, participant):
    "Answers to visits that a rule of history gives; no data of people."
    rows = simulate_answers(key, participant, skill=1)
    said = {item.trial: OBJECTS[rule(pasts[item.store_trial])] for item in key.items if item.kind == "test"}
    return [row | {"answer": said.get(row["trial"], row["answer"])} for row in rows]


def test_visits_ask_what_models_are_asked_and_are_scored_by_concept(study, tmp_path):
    key, test = read_key(study / "visits"), trial_set(study / "visits trials", None)
    pages = content(study, "visits")
    for item, shown in zip(key.items, pages["items"], strict=True):
        steps = shown["steps"]
        assert (steps == VISIT_CONTEXT) == (item.kind == "test") and ("happened" in shown) == (item.kind == "practice")
        assert item.kind != "practice" or item.behavior not in NEW_CONCEPTS
        brought = goals(test.states[item.store_trial, VISIT_CONTEXT:])
        assert item.happened == [f"obj{thing}" for thing in np.flatnonzero(brought)]
    assert pages["cuts"] == [50, 100, 150, 200, 250] and pages["speed"] == 100
    groups = open_trials(study / "visits trials").group.values[[item.store_trial for item in key.items]]
    assert len(set(groups)) == len(groups), "nobody sees two outcomes of a scene"
    assert sorted(item.behavior for item in key.items if item.kind == "test") == sorted(CONCEPTS)
    pasts = [read_past(states[:VISIT_CONTEXT]) for states in test.states]
    rules = {"ideal": lambda past: int(ideal(past).argmax()), "mine": HISTORY_RULES["mine last"]}
    for name, rule in rules.items():
        file = write_answers(tmp_path / f"{name}.csv", answers_of_a_rule(key, pasts, rule, name))
        scores, _ = score_study(study / "visits", [file], tmp_path / name)
        right = scores[scores.metric == "right"].set_index("behavior").value
        assert set(right.index) == {"all", "known", "new", *CONCEPTS} and right.own == 1
        assert (right == 1).all() if name == "ideal" else right["all"] < 0.9
    rows = simulate_answers(key, "none")
    rows[-1] |= {"answer": "none"}
    with pytest.raises(BadData, match="cannot have answered"):
        read_answers([write_answers(tmp_path / "none.csv", rows)], key)
    with pytest.raises(UsageError, match="holds no visits"):
        build_study(study / "trials", tmp_path / "study", "visits", trials=6)


def test_a_visit_is_played_again_in_a_browser(browser, study, tmp_path):
    saved, beside = run_study(browser, study / "visits/index.html", tmp_path, 400, 740, keyboard=False)
    answers = read_answers([saved], read_key(study / "visits"))
    assert beside == 0 and len(answers) == 6 + 2 + 3 and (answers.answer == "obj0").all()
    page = opened(browser, (study / "visits/index.html").as_uri())
    press(page, "I agree to take part")
    press(page, "Continue")
    page.wait_for_selector(".study-answers button:not([disabled])")
    assert page.locator(".study-answers button").count() == 3 and page.locator('[aria-current="true"]').inner_text() == "6"
    press(page, "2")
    page.wait_for_selector('[aria-current="true"]:text("2")')
    page.wait_for_selector('[aria-current="true"]:text("6")')
    press(page, "A")
    page.locator(".study-sure input").fill("80")
    press(page, "Continue")
    page.wait_for_selector("text=What happened")
    assert page.evaluate("() => JSON.parse(Object.values(localStorage)[0]).rows[0].replays") == 1
    page.close()


def test_truths_and_scenarios_are_balanced(study):
    test = trial_set(study / "trials", None)
    chosen = balanced(task_items(test, "single_goal", test.first_inside()), 6, np.random.default_rng(3))
    for values in ([item.truth for item in chosen], [item.scenario for item in chosen]):
        counts = pd.Series(values).value_counts()
        assert counts.max() - counts.min() <= 1


def test_scores_are_those_computed_by_hand(key, study, tmp_path):
    files = [
        write_answers(tmp_path / f"{name}.csv", simulate_answers(key, name, seed))
        for seed, name in enumerate("abc")
    ]
    outcomes = person_outcomes(read_answers(files, key), key)
    scores = score_answers(outcomes).query("behavior == 'all'").set_index(["task", "target", "metric"]).value
    rows = [row for file in files for row in csv.DictReader(file.open())]
    named = {(row["participant"], row["trial"], row["answer"]) for row in rows}
    for metric, happened in (("recall", True), ("false_positive", False)):
        said = [
            (name, item.trial, row.object) in named
            for name in "abc"
            for item in key.items
            if item.task == "single_goal"
            for row in item.rows
            if row.truth == happened
        ]
        assert scores["single_goal", "object", metric] == np.mean(said)
    part = outcomes[outcomes.target == "3rd"]
    assert scores["multi_goal", "3rd", "brier"] == pytest.approx(np.mean((part.score - part.truth) ** 2))


def test_who_knows_all_is_right_and_who_clicks_by_chance_is_left_out(key, study, tmp_path):
    knows = simulate_answers(key, "knows", 0, skill=1.0)
    wrong = [
        row | {
            "answer": "none", "participant": "wrong"
        } if row["kind"] == "catch" else row | {"participant": "wrong"}
        for row in knows
    ]
    files = [write_answers(tmp_path / "knows.csv", knows), write_answers(tmp_path / "wrong.csv", wrong)]
    scores, people = score_study(study / "study", files, tmp_path / "people")
    assert people.included.to_dict() == {"knows": True, "wrong": False} and set(scores.variant) == {"n = 1"}
    values = scores.query("behavior == 'all'").groupby("metric").value
    assert values.min()["recall"] == 1 and values.max()["false_positive"] == 0 and values.max()["brier"] < 0.2
    with pytest.raises(BadData, match="nobody"):
        score_study(study / "study", files[1:], tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_people_in_houses_are_scored_as_methods_are(study, houses, tmp_path):
    pairs = open_pairs(study / "runs")

    def same_as_people(house, evidence, query, preferences):
        "Certain of A."
        return 1.0, 0.0

    rows = [
        row | {"answer": 0} if row["kind"] == "test" else row
        for row in simulate_answers(houses, "certain", skill=1)
    ]
    answers = read_answers([write_answers(tmp_path / "certain.csv", rows)], houses)
    outcomes = rating_outcomes(answers, houses).sort_values(["trial", "part"]).reset_index(drop=True)
    tested = sorted(item.store_trial for item in houses.items if item.kind == "test")
    method = score_pairs([pairs[row] for row in tested], same_as_people)
    for column in ("scenario", "part", "tau", "horizon", "culprit", "said_a", "accuracy"):
        assert outcomes[column].tolist() == method[column].tolist(), column


def test_houses_are_scored_over_people_and_given_to_figures(study, houses, tmp_path):
    files = [
        write_answers(tmp_path / f"{name}.csv", simulate_answers(houses, name, seed, 0.9))
        for seed, name in enumerate(("01", "NA"))
    ]
    lazy = [row | {"answer": 50, "participant": "lazy"} for row in simulate_answers(houses, "lazy")]
    scores, people = score_study(
        study / "marple", [*files, write_answers(tmp_path / "lazy.csv", lazy)], tmp_path / "people"
    )
    assert people.included.to_dict() == {"01": True, "NA": True, "lazy": False}
    values = scores[scores.behavior == "all"].set_index("metric").value
    assert values.accuracy_10 == 1 and values.accuracy_0 < 0.7 and 0 < values.evidence_needed < 1
    curves = people_curves(tmp_path / "people")
    assert set(curves.variant) == {"people (n = 2), V+A+L"} and set(curves.participant) == {"01", "NA"}
    assert set(people_scores(tmp_path / "people").variant) == {"n = 2"}
    (tmp_path / "people/scores.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadData, match="no model"):
        people_scores(tmp_path / "people")
    with pytest.raises(UsageError, match="aawm study score"):
        people_curves(tmp_path)


DAMAGES = {  # what is wrong with a file -> what is changed in its rows, and what is said
    "another study": (lambda rows: [row | {"study": "0" * 16} for row in rows], "is of study"),
    "another seed": (lambda rows: [row | {"seed": 9} for row in rows], "seed 9"),
    "too sure": (lambda rows: [rows[0] | {"confidence": 101}, *rows[1:]], "confidence"),
    "no number": (lambda rows: [rows[0] | {"confidence": "nan"}, *rows[1:]], "confidence"),
    "another object": (lambda rows: [rows[0] | {"answer": "obj9"}, *rows[1:]], "answer"),
    "another trial": (lambda rows: [rows[0] | {"trial": "t999"}, *rows[1:]], "t999"),
    "a row twice": (lambda rows: [rows[0], *rows], "stand there twice"),
    "not whole": (lambda rows: rows[:-1], "did not answer all"),
    "a formula for a name": (lambda rows: [row | {"participant": "=1+1"} for row in rows], "participant"),
    "no answers": (lambda rows: [row | {"row": ""} for row in rows], "no answers"),
    "rows of another kind": (lambda rows: [*rows, rows[-1] | {"row": "anser"}], "anser"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_foreign_file_is_refused_in_one_line(key, study, tmp_path, capsys, damage):
    change, words = DAMAGES[damage]
    whole = write_answers(tmp_path / "whole.csv", simulate_answers(key, "whole", 1))
    file = write_answers(tmp_path / "bad.csv", change(simulate_answers(key, "bad")))
    assert leave("study", "score", study / "study", whole, file, "--strict", "--out", tmp_path / "people") == 3
    said = capsys.readouterr().err.strip()
    assert (
        words in said and "bad.csv" in said and "\n" not in said and not (tmp_path / "people").exists()
    )


def test_one_bad_file_stops_no_class(key, study, tmp_path, capsys):
    files = [write_answers(tmp_path / f"{name}.csv", simulate_answers(key, name, 1)) for name in ("ann", "copy")]
    hasty = [row | {"rt": 3} for row in simulate_answers(key, "hasty", 2)]
    files.append(write_answers(tmp_path / "hasty.csv", hasty))
    files.append(write_answers(tmp_path / "part.csv", simulate_answers(key, "part")[:-1]))
    twice = simulate_answers(key, "twice", 3)
    files.append(write_answers(tmp_path / "twice.csv", [*twice, *twice]))
    assert leave("study", "score", study / "study", *files, "--out", tmp_path / "people") == 0
    said = capsys.readouterr().out
    for words in (
        "copy: the same answers as ann", "hasty: 100% of answers in less than 300 ms", "part did not answer all", "of twice's answers stand there twice"
    ):
        assert words in said
    people = pd.read_csv(tmp_path / "people/people.csv", index_col="participant")
    assert people.included.to_dict() == {"ann": True, "copy": False, "hasty": False, "twice": True}
    assert people.median_rt["hasty"] == 3 and people.fast["ann"] == 0
    assert pd.read_csv(tmp_path / "people/passed_over.csv").participant.tolist() == ["part", "twice"]


COMMENTS = {  # what somebody typed
    "words of a header": "As a participant I saw one trial, then a row of others",
    "a header": 'fine\n"row","participant","trial"\nrow,participant,trial',
    "other line ends": "one\u2028two\u2029three\x85four\x0bfive\rsix",
    "a formula": "=HYPERLINK(1)",
    "a header by semicolons": "as I said;row;participant;trial" + ";" * 40,
    "very long": "long " * 40_000,
}


@pytest.mark.parametrize("name", COMMENTS)
@pytest.mark.parametrize("way", ["row", "column"])
def test_a_comment_costs_nobody(study, key, tmp_path, name, way):
    people = [simulate_answers(key, code, seed) for seed, code in enumerate(("ann", "bob", "cai"))]
    empty = dict.fromkeys(people[0][0], "") | {"participant": "ann", "comment": COMMENTS[name], "ended": "", "blurs": ""}
    said = empty | ({"row": "comment"} if way == "row" else {"row": "person", "blurs": 2, "ended": "2025-01-01T10:00:00.000Z"})
    rows = [*people[0], said, *people[1], *people[2]]
    file = tmp_path / "class.csv"
    with file.open("w", newline="", encoding="utf-8") as opened_file:
        writer = csv.DictWriter(opened_file, list(said), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    _, people = score_study(study / "study", [file], tmp_path / "people")
    assert people.index.tolist() == ["ann", "bob", "cai"]
    assert people.comment.tolist() == [" ".join(COMMENTS[name].split()), "", ""]
    written = pd.read_csv(tmp_path / "people/people.csv", keep_default_na=False).comment[0]
    assert written == "'" * (name == "a formula") + people.comment.iloc[0]


@pytest.mark.parametrize("way", ["sep=;", "utf-16", "sorted by time", "a time is missing", "NA", "times of Excel"])
def test_forms_of_spreadsheets_and_hosts_cost_nobody(key, tmp_path, way):
    rows = simulate_answers(key, "ann")
    missing = {"a time is missing": "", "NA": "NA"}
    if way in missing:
        rows[3] = rows[3] | {"rt": missing[way]}
    if way == "times of Excel":
        rows.append(dict.fromkeys(rows[0], "") | {"row": "person", "participant": "ann", "started": "01.02.2025 10:00", "ended": "", "blurs": "1,5"})
    if way == "sorted by time":
        rows.sort(key=lambda row: row["rt"])
    file = tmp_path / "ann.csv"
    text = pd.DataFrame(rows).to_csv(index=False, sep=";", quoting=csv.QUOTE_ALL)
    file.write_text("sep=;\n" * (way == "sep=;") + text, encoding="utf-16" if way == "utf-16" else "utf-8")
    answers = read_answers([file], key)
    assert len(answers) == len(simulate_answers(key, "ann")) and answers.rt.isna().sum() == (way in missing)


def test_what_a_host_kept_after_each_answer_is_one_person(key, tmp_path):
    rows = [row | {"run": "r1"} for row in simulate_answers(key, "ann")]
    anew = [row | {"run": "r2"} for row in simulate_answers(key, "ann", 1)]
    files = [write_answers(tmp_path / f"{count}.csv", rows[:count]) for count in range(1, len(rows) + 1)]
    assert len(read_answers(files, key)) == len(rows), "one person, and no fault"
    joined = write_answers(tmp_path / "joined.csv", [row for count in range(len(rows), 0, -1) for row in rows[:count]])
    assert len(read_answers([joined, files[3]], key)) == len(rows)
    part, whole = write_answers(tmp_path / "part.csv", anew[:-1]), write_answers(tmp_path / "whole.csv", anew)
    for second, words in ((part, "did not answer all of 1"), (whole, "began more than once")):
        faults: list = []
        assert read_answers([*files, second], key, faults).rt.tolist() == read_answers(files, key).rt.tolist()
        assert [fault["participant"] for fault in faults] == ["ann"] and words in faults[0]["reason"]
    assert len(read_answers([part, *files], key, [])) == len(rows), "the run that is whole counts"


def test_if_nobody_passes_every_reason_is_kept(study, key, tmp_path):
    lazy = [write_answers(tmp_path / f"{name}.csv", simulate_answers(key, name, seed, 0)) for seed, name in enumerate("abc")]
    part = [write_answers(tmp_path / f"{name}.csv", simulate_answers(key, name)[:-1]) for name in "de"]
    with pytest.raises(BadData, match="nobody can be scored: a: .*; b: .*; c: .*participant d did.*participant e did"):
        score_study(study / "study", lazy + part, tmp_path / "people", [])
    with pytest.raises(BadData, match="participant d did.*participant e did"):
        score_study(study / "study", part, tmp_path / "people", [])


def test_one_person_in_two_files_is_refused(key, tmp_path):
    files = [write_answers(tmp_path / f"{name}.csv", simulate_answers(key, "same", name)) for name in (1, 2)]
    with pytest.raises(BadData, match="two answers to t000"):
        read_answers(files, key)


def test_a_translation_has_all_words(tmp_path):
    words = study_words()
    for wrong in (
        {key: words[key] for key in list(words)[1:]}, words | {"more": "x"}, words | {"code": "no place"}
    ):
        (tmp_path / "words.json").write_text(json.dumps(wrong))
        with pytest.raises(UsageError, match="words.json"):
            study_words(tmp_path / "words.json")


def test_a_consent_text_cannot_run_code(study, tmp_path):
    (tmp_path / "consent.txt").write_text("</script><script>window.ran = 1</script>%study%")
    build_study(study / "trials", tmp_path / "study", trials=2, seed=1, consent=tmp_path / "consent.txt")
    text = (tmp_path / "study/index.html").read_text(encoding="utf-8")
    assert text.count("</script>") == asset("page.html").count("</script>") and "%study%" in text


def run_study(browser, page_file, tmp_path, wide, high, keyboard, extra="") -> tuple:
    "A whole run in a browser: the rows saved, and how often something lay beside the screen."
    page = browser.new_page(viewport={"width": wide, "height": high}, accept_downloads=True)
    page.set_default_timeout(60_000)
    outside = []
    faults = []
    beside = 0
    note_requests(page, outside, "file:")
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.goto(page_file.as_uri() + extra)
    ready = ".study-next:not([disabled]), .study-answers button:not([disabled]), .study-sure input:not([disabled]), .study-download"
    while not page.locator(".study-download").count():
        page.wait_for_selector(ready)
        beside += page.evaluate("document.documentElement.scrollWidth > innerWidth")
        options = page.locator(".study-answers button")
        slider = page.locator(".study-sure input")
        if slider.count():
            place = slider.bounding_box()
            assert place["y"] + place["height"] <= high, "the slider is on the screen, without scrolling"
            if keyboard:
                page.keyboard.press("n" if options.count() else "7")
                page.keyboard.press("ArrowRight")
                page.keyboard.press("Enter")
            else:
                if options.count():
                    options.nth(0 if options.count() > 2 else 1).click()
                slider.fill("80")
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
    phone, beside = run_study(browser, study / "study/index.html", tmp_path, 400, 720, keyboard=False)
    desk, wide = run_study(
        browser, study / "study/index.html", tmp_path, 1200, 900, keyboard=True, extra="?participant=desk_1"
    )
    assert beside == wide == 0, "nothing lies beside the screen"
    answers = read_answers([phone, desk], key)
    assert (
        set(answers.participant) > {"desk_1"} and answers.groupby("participant").trial.nunique().eq(13).all()
    )
    clicked = answers[answers.participant != "desk_1"]
    assert (clicked[clicked.place == 0].answer == "obj0").all() and (clicked.confidence == 80).all()
    typed = answers[answers.participant == "desk_1"]
    assert (typed.answer == "none").all() and (typed.confidence == 51).all()
    orders = [
        part[part.kind != "practice"].drop_duplicates("trial").trial.tolist()
        for _, part in answers.groupby("participant")
    ]
    assert sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1], "an order for each"
    assert person_outcomes(typed, key).prediction.sum() == 0


@pytest.mark.parametrize(("wide", "high", "keyboard", "said"), [(400, 720, False, 80), (1200, 900, True, 71)])
def test_a_whole_run_of_houses_is_saved_and_scored(
    browser, study, houses, tmp_path, wide, high, keyboard, said
):
    saved, beside = run_study(browser, study / "marple/index.html", tmp_path, wide, high, keyboard)
    answers = read_answers([saved], houses)
    assert beside == 0 and len(answers) == 2 * 11 + 3 + 3
    assert answers.answer.isin([said, said + 1] if keyboard else [said]).all(), "the digit, and the arrow"
    outcomes = rating_outcomes(answers, houses)
    assert outcomes.groupby("trial").part.apply(list).map(lambda parts: parts == list(range(11))).all()


def test_a_tap_on_the_slider_where_it_stands_counts(browser, study):
    page = browser.new_page(viewport={"width": 400, "height": 800}, has_touch=True)
    page.goto((study / "marple/index.html").as_uri())
    for _ in range(2):
        page.locator(".study-next").first.tap()
    page.wait_for_selector(".study-sure input:not([disabled])")
    page.locator(".study-sure input").tap()
    page.locator(".study-next:not([disabled])").tap()
    page.wait_for_selector(".study-sure input:not([disabled])")
    page.locator("text=No change").tap()
    page.wait_for_function("() => Object.values(localStorage).some((text) => JSON.parse(text).rows.length === 2)")
    assert page.evaluate("() => JSON.parse(Object.values(localStorage)[0]).rows.map((row) => row.answer)") == [50, 50]
    page.close()


def test_a_key_on_the_slider_where_it_stands_counts(browser, study):
    page = opened(browser, (study / "marple/index.html").as_uri())
    press(page, "I agree to take part")
    page.locator(".study-next").first.click()
    slider = page.locator(".study-sure input:not([disabled])")
    slider.focus()
    page.keyboard.press("Tab")
    slider.focus()
    assert page.locator(".study-next").is_disabled(), "nothing is said yet"
    page.keyboard.press("Home")
    page.locator(".study-next:not([disabled])").click()
    slider.wait_for()
    slider.focus()
    page.keyboard.press("Home")  # it stands at 0 already, so it sends no `input`
    page.locator(".study-next:not([disabled])").click()
    page.wait_for_function("() => JSON.parse(Object.values(localStorage)[0]).rows.length === 2")
    assert page.evaluate("() => JSON.parse(Object.values(localStorage)[0]).rows.map((row) => row.answer)") == [0, 0]
    page.close()


def test_the_challenge_tells_how_one_did_and_keeps_nothing(browser, study, tmp_path):
    (tmp_path / "challenge.html").write_text(challenge_page(generate(tmp_path / "trials", 54, seed=7, progress=False)), encoding="utf-8")
    page = opened(browser, (tmp_path / "challenge.html").as_uri())
    press(page, "Continue")
    for number in range(6):
        page.locator(".study-answers button:not([disabled])").first.click()
        page.locator(".study-sure input").fill("80")
        page.locator(".study-next").click()
        page.wait_for_selector("text=/What happened: [ABC] was picked up/")
        page.locator(".study-next:not([disabled])").click()
    page.wait_for_selector("text=How did you do?")
    assert re.search(r"You: [0-6] / 6.*Event Transformer[^:]*: [0-6] / 6", page.inner_text("body"), re.DOTALL)
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0 and not warns(page)
    page.screenshot(path=tmp_path / "end.png")
    page.close()


def test_who_does_not_agree_leaves_nothing(browser, study):
    page = browser.new_page()
    page.goto((study / "pickups/index.html").as_uri())
    page.locator("text=I do not agree").click()
    page.wait_for_selector("text=Nothing was kept")
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0 and not warns(page)
    page.close()
