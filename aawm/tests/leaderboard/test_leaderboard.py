"""The leaderboard: a program in NumPy alone is entered and scored; entries hold no numbers, and what is hostile or of other trials is refused."""

import ast
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
import yaml

from aawm import cli
from aawm.errors import BadData
from aawm.evaluation import read_evaluation
from aawm.evaluation.exchange import task_id
from aawm.evaluation.rollouts import PLAIN_WORLDS
from aawm.files import write_text
from aawm.bench.cards import markdown_table
from aawm.leaderboard.board import Row, board_rows, board_table, plain_text_of, rank_words
from aawm.leaderboard.entries import check_entry_name, entry_files, form_text, read_entry, read_release
from aawm.leaderboard.scoring import (
    LEAST, PROTOCOL, Answers, goal_draws, rates, read_scores, release_trials, score_entry, scores_path
)
from aawm.runs import profile_values
from aawm.tests.conftest import FIXTURES, ROOT

GUIDE = ROOT / "nbs/guides/07_enter_the_leaderboard.ipynb"
HOSTILE = FIXTURES / "board_injection.yaml"
NAME = "straight_carry"
ENTRY = Path(f"leaderboard/entries/{NAME}.yaml")
TRIALS = 45


def run(*words, code: int = 0) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main([*words])
    assert (end.value.code or 0) == code


@pytest.fixture(scope="module")
def fork(tmp_path_factory):
    "A folder with the guide's program entered and scored on the trials of a release."
    folder = tmp_path_factory.mktemp("fork")
    (folder / "settings.ini").touch()
    (folder / "nbs").mkdir()
    cells = nbformat.read(GUIDE, as_version=4).cells
    shown = next(cell.source for cell in cells if cell.source.startswith("source = '''"))
    (folder / "carry.py").write_text(ast.literal_eval(ast.parse(shown).body[0].value).lstrip())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        release = read_release(ROOT / "leaderboard").model_copy(update={"seed": 7, "trials": TRIALS})
        write_text("leaderboard/release.yaml", form_text(release))
        links = ("--code", "https://example.org", "--files-at", "https://example.org/f")
        files = [word for _ in range(3) for word in ("--file", "carry.py")]
        run("leaderboard", "enter", NAME, *files, *links, "--by", "somebody", "--about", "Straight.")
        store = release_trials(release, workers=1, progress=False)
        run("requests", str(store), "--out", "requests.npz", "--task", ",".join(release.tasks))
        made = []
        for seed in range(3):
            Path(f"rollouts-{seed}").mkdir()
            for file in Path().glob("requests-*.npz"):
                words = ["carry.py", file.name, f"rollouts-{seed}/{file.name}", str(seed)]
                subprocess.run([sys.executable, "-I", *words], check=True)
            score = ("score", f"rollouts-{seed}", "--requests", "requests.npz", "--store", str(store))
            run(*score, "--out", f"mine-{seed}")
            made += ["--evaluation", f"mine-{seed}"]
        run("leaderboard", "score", NAME, *made, "--no-progress")
    return folder


@pytest.fixture
def inside(fork, monkeypatch):
    "Its folder as the working folder; entry, release and scores are afterwards as they were."
    monkeypatch.chdir(fork)
    files = [ENTRY, Path("leaderboard/release.yaml"), *Path("leaderboard/scores").iterdir()]
    before = {file: file.read_text() for file in files}
    yield ENTRY
    for file, text in before.items():
        file.write_text(text)


# what an entry may say


def scores_now():
    "The entry's scores as it stands, on the release as it stands."
    return read_scores("leaderboard", NAME, read_entry(ENTRY).model_dump())


def content() -> dict:
    files = [{"seed": seed, "file": "carry.py", "sha256": "0" * 64} for seed in range(3)]
    links = {"code": "https://example.org", "files_at": "https://example.org/f"}
    return {"model": "mine", "by": "somebody", "about": "A try.", "privileged": [], "files": files} | links


@pytest.mark.parametrize("change, said", [
    ({"scores": [{"recall": 1.0}]}, "scores is not a known field"), ({"code": "javascript:alert(1)"}, "https://"), ({"code": "http://example.org"}, "https://"),
    ({"by": "x\n| 0 | **first** |"}, "one line"), ({"by": "x" * 201}, "200 characters"), ({"files": []}, "at least 1"), ({"model": "os:system"}, "plain name"),
    ({"files": [{"seed": 0.5, "file": "a", "sha256": "0" * 64}]}, "seed"), ({"files": [{"seed": 0, "file": "../a", "sha256": "0" * 64}]}, "plain name"),
    ({"files": 2 * content()["files"]}, "stands twice"), ({"privileged": ["the_future"]}, "end_state"), ({"trials": 300}, "trials is not a known field"),
])  # fmt: skip
def test_an_entry_is_refused_in_one_line(tmp_path, change, said):
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(content()))
    assert read_entry(path).model == "mine"
    path.write_text(json.dumps(content() | change))
    with pytest.raises(BadData, match="mine.yaml") as fault:
        read_entry(path)
    assert said in str(fault.value) and "\n" not in str(fault.value)


def test_an_entry_with_numbers_of_its_own_is_refused(monkeypatch, tmp_path, capsys):
    (tmp_path / "leaderboard/entries").mkdir(parents=True)
    (tmp_path / "leaderboard/entries/fake.yaml").write_text(HOSTILE.read_text())
    monkeypatch.chdir(tmp_path)
    run("leaderboard", "page", code=3)
    assert "fake.yaml" in capsys.readouterr().err and not Path("leaderboard/README.md").exists()


@pytest.mark.parametrize("name", ["frozen_world", "Faced", "a b", "ä", "con", "NUL", "Com1", "a.b", "", "-a"])
def test_odd_names_and_those_of_rules_and_devices_are_no_entries(name):
    with pytest.raises(BadData, match="no name of an entry"):
        check_entry_name(name)
    check_entry_name("con-1")


def test_names_that_differ_only_in_case_are_refused(inside, capsys):
    words = ("--about", "x", "--code", "https://a.org", "--files-at", "https://a.org", "--file", "carry.py", "--by", "me")
    run("leaderboard", "enter", NAME.upper(), *words, "--replace", code=2)
    assert "but for case" in capsys.readouterr().err and entry_files("leaderboard") == [inside]
    twin = inside.with_stem(NAME.upper())
    twin.write_text(inside.read_text())
    try:
        if len(list(inside.parent.iterdir())) == 2:  # on a file system that tells them apart
            with pytest.raises(BadData, match="only in case"):
                entry_files("leaderboard")
    finally:
        twin.unlink()


def test_an_entry_says_who_what_and_where(inside, capsys):
    run("leaderboard", "enter", "other", "--by", "me", "--file", "carry.py", code=2)
    assert "--about, --code, --files-at missing" in capsys.readouterr().err
    before = inside.read_text()
    words = ("--about", "x", "--code", "https://a.org", "--files-at", "https://a.org", "--file", "carry.py", "--by", "somebody else")
    run("leaderboard", "enter", NAME, *words, code=2)
    assert "--replace" in capsys.readouterr().err and inside.read_text() == before
    run("leaderboard", "enter", NAME, *words, "--replace")
    assert read_entry(inside).by == "somebody else" and scores_now() is None, "its scores are of another form"


def test_what_a_stranger_writes_is_shown_as_text():
    said = yaml.safe_load(HOSTILE.read_text())["submission"]["by"] + "<script>`_*~\\"
    assert not set("[]()|<>*`_~\n\\") & set(plain_text_of(said)) and "](http" not in plain_text_of(said)


# one test set for all


def test_all_rows_are_of_the_same_objects(inside):
    rows = board_rows("leaderboard")
    assert {row.name for row in rows} == {NAME, "true_world", *PLAIN_WORLDS}
    for answers in zip(*(row.scores.answers for row in rows)):
        assert len({(each.truth, tuple(each.trial)) for each in answers}) == 1
    outcomes = read_evaluation("mine-1").outcomes.query("task == 'single_goal'").sort_values(["trial", "object"])
    assert scores_now().answers[0].said[1] == "".join(map(str, outcomes.prediction.astype(int)))
    assert scores_now().answers[0].truth == "".join(map(str, outcomes.truth.astype(int)))
    other = scores_now().model_copy(update={"data_hash": "0" * 64})
    write_text(scores_path("leaderboard", NAME), form_text(other))
    with pytest.raises(BadData, match="different trials"):
        board_rows("leaderboard")


@pytest.mark.parametrize("change", [{"seed": 8}, {"trials": 46}, {"release": "0.0"}])
def test_scores_of_another_release_wait(inside, change):
    assert scores_now().trials == TRIALS
    changed = read_release("leaderboard").model_copy(update=change)
    write_text("leaderboard/release.yaml", form_text(changed))
    assert scores_now() is None and board_rows("leaderboard") == []


def test_evaluations_of_another_model_seed_or_store_are_refused(inside):
    made = [read_evaluation(f"mine-{seed}") for seed in range(3)]
    store = release_trials(read_release("leaderboard"), 1, False)
    before = scores_path("leaderboard", NAME).read_text()
    for evaluations, record, said in (
        (made[:2], {}, "training seeds"), (made[::-1], {}, "training seeds"), (made, {"model": "other"}, "model"),
        (made, {"privileged": ["end_state"]}, "privileged"), (made, {"data_hash": "0" * 64}, "data_hash"),
        (made, {"tasks": ["single_goal"]}, "tasks")
    ):
        changed = [dataclasses.replace(each, record=each.record | record) for each in evaluations]
        with pytest.raises(BadData, match=said):
            score_entry("leaderboard", NAME, store, changed)
    assert scores_path("leaderboard", NAME).read_text() == before


def test_scored_again_it_has_the_same_scores(inside):
    before = scores_path("leaderboard", NAME).read_text()
    made = [word for seed in range(3) for word in ("--evaluation", f"mine-{seed}")]
    run("leaderboard", "score", NAME, *made, "--no-progress")
    assert scores_path("leaderboard", NAME).read_text() == before


# ranks and the page


def answers(truth: str, *said: str) -> Answers:
    return Answers(task="single_goal", target="object", trial=list(range(len(truth))), truth=truth, said=list(said))


def test_rates_are_those_of_a_slow_count():
    recall, falsely, delivered, stay = rates(answers("110100", "100010", "110111"), 6)
    assert (recall[0].tolist(), falsely[0].tolist()) == ([1 / 3, 1], [1 / 3, 2 / 3]) and (delivered, stay) == (3, 3)


def test_a_question_with_few_objects_of_a_kind_does_not_count(inside):
    scores = scores_now()

    def goal(stay: int) -> np.ndarray:
        truth = "1" * LEAST + "0" * stay
        update = {"answers": [answers(truth, truth)], "trials": len(truth)}
        return goal_draws(scores.model_copy(update=update))

    assert np.isnan(goal(LEAST - 1)).all() and (goal(LEAST) == 1).all()


def test_entries_tie_where_their_paired_difference_holds_zero():
    luck = np.random.default_rng(0).normal(0, 0.1, 1001)
    own = np.random.default_rng(1).normal(0, 0.1, 1001)
    luck[0] = own[0] = 0
    assert rank_words([0.5 + luck, 0.45 + luck, 0.44 + own]) == ["1 to 2", "2 to 3", "1 to 3"]


def test_references_and_what_is_given_more_have_no_rank(inside):
    row = next(row for row in board_rows("leaderboard") if row.name == NAME)
    given = Row("given", row.scores, row.entry.model_copy(update={"privileged": ["end_state"]}))
    few = Row("few", row.scores, row.entry.model_copy(update={"files": row.entry.files[:2]}))
    rule = Row("nearest_carries", row.scores)
    assert row.ranked and not any(other.ranked for other in (given, few, rule))
    table = board_table([row, rule])
    assert table["rank"].tolist()[1] == "-" and table.entry[1] == "*Nearest carries*"
    assert all(line.count(" | ") == table.shape[1] - 1 for line in markdown_table(table, index=False).splitlines())


def test_the_page_shows_entries_and_references(inside):
    run("leaderboard", "page")
    text = Path("leaderboard/README.md").read_text()
    assert f"| {NAME} | context | 3 |" in text and "*Faced*" in text and "too few to count" in text
    assert "tested on them: 1; waiting: 0" in text


def test_entries_of_this_repository_are_in_form():
    paths = entry_files(ROOT / "leaderboard")
    assert len(paths) >= 9 and all(len(read_entry(path).files) == 3 for path in paths)
    release = read_release(ROOT / "leaderboard")
    assert release.tasks == [task_id(name) for name in PROTOCOL.record()["tasks"]]
    drawn = profile_values("seeds")
    assert (drawn["test_seed"], drawn["test_trials"]) == (release.seed, release.trials), "the board's trials are the figures'"
