"""The leaderboard: a program in NumPy alone is entered and scored; entries hold no numbers, and what is hostile or tampered with is refused."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
import yaml

from aawm import cli
from aawm.data import open_trials
from aawm.errors import BadData, Refused, UsageError
from aawm.evaluation.exchange import read_arrays, write_rollout_arrays
from aawm.evaluation.intervals import wilson
from aawm.files import machine, write_text
from aawm.leaderboard.board import (
    BOARD_COLUMNS, Row, board_rows, board_table, plain_text_of, markdown_table, rank_words,
)
from aawm.leaderboard.entries import (
    refuse_together, commit_seed, entry_commit, form_text, git_words, read_entry,
)
from aawm.leaderboard.scoring import (
    QUESTIONS, GoalNumber, entry_tests, goal_number, read_scores, recheck_entry, score_differences,
    scores_faults, scores_path,
)
from aawm.tests.conftest import FIXTURES, ROOT

GUIDE = ROOT / "nbs/guides/07_enter_the_leaderboard.ipynb"
HOSTILE = FIXTURES / "board_injection.yaml"
NAME = "straight_carry"
ENTRY = f"leaderboard/entries/{NAME}.yaml"
ROLLOUTS = ("--rollouts", "rollouts")
FEW = ("--trials", "54", "--workers", "1", "--no-progress")


def commit(folder: Path, words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    git_words("add", "leaderboard", folder=folder)
    git_words(*who, "commit", "-q", "-m", words, folder=folder)


@pytest.fixture(scope="module")
def fork(tmp_path_factory):
    "A repository with the guide's program entered, committed and scored on 54 trials."
    folder = tmp_path_factory.mktemp("fork")
    (folder / "settings.ini").touch()
    (folder / "nbs").mkdir()
    cells = nbformat.read(GUIDE, as_version=4).cells
    shown = next(cell.source for cell in cells if cell.source.startswith("source = '''"))
    (folder / "carry.py").write_text(ast.literal_eval(ast.parse(shown).body[0].value).lstrip())
    git_words("init", "-q", folder=folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
            patch.setenv(name, "2026-01-01T00:00:00Z")  # the same trials each time
        files = [word for seed in range(3) for word in ("--file", f"{seed}=carry.py")]
        run(
            "enter", NAME, *files, "--code", "https://example.org", "--files-at", "https://example.org/f",
            "--by", "somebody"
        )
        with pytest.raises(UsageError, match="not committed"):
            entry_tests(ENTRY)
        commit(folder, "enter")
        (folder / "rollouts").mkdir()
        part = 0
        parts = 1
        while part < parts:
            run("requests", ENTRY, "--out", "requests.npz", *ROLLOUTS, *FEW)
            parts = json.loads(str(np.load(f"requests-{part}.npz")["about"]))["parts"]
            roll_out("carry.py", part)
            part += 1
        run("score", ENTRY, *ROLLOUTS, *FEW)
    return folder


def roll_out(program: str, part: int, folder: str = "rollouts") -> None:
    for seed in range(3):
        words = [program, f"requests-{part}.npz", f"{folder}/{part}-{seed}.npz", str(seed)]
        subprocess.run([sys.executable, "-I", *words], check=True)


def run(*words, code: int = 0) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["leaderboard", *words])
    assert (end.value.code or 0) == code


@pytest.fixture
def inside(fork, monkeypatch):
    "The repository as the working folder; its entry and scores are afterwards as they were."
    monkeypatch.chdir(fork)
    files = [Path(ENTRY), *Path("leaderboard/scores").iterdir()]
    before = {file: file.read_text() for file in files}
    yield Path(ENTRY)
    for file, text in before.items():
        file.write_text(text)


def change_scores(path: Path, **change) -> None:
    write_text(scores_path(path), form_text(read_scores(scores_path(path)).model_copy(update=change)))


# what an entry may say


def content() -> dict:
    files = [{"seed": seed, "file": "carry.py", "sha256": "0" * 64} for seed in range(3)]
    return dict(
        model="mine", variant="corrected", by="somebody", code="https://example.org", files_at="https://example.org/f", about="A try.",
        privileged=[], kind="program", files=files, tasks=["single_goal@1"], trials=1000, aawm="0.1.0",
    )  # fmt: skip


@pytest.mark.parametrize("change, said", [
    ({"scores": [{"recall": 1.0}]}, "scores is not a known field"), ({"result": {}}, "result is not a known field"), ({"code": "javascript:alert(1)"}, "https://"),
    ({"code": "http://example.org"}, "https://"), ({"by": "x\n| 0 | **first** |"}, "one line"), ({"by": "x" * 201}, "200 characters"), ({"trials": 99}, "100"),
    ({"trials": 100_001}, "100000"), ({"trials": True}, "integer"), ({"files": []}, "at least 1"), ({"model": "os:system"}, "plain name"),
    ({"files": [{"seed": 0.5, "file": "a", "sha256": "0" * 64}]}, "seed"), ({"files": [{"seed": -1, "file": "a", "sha256": "0" * 64}]}, "seed"),
    ({"files": [{"seed": 0, "file": "../a", "sha256": "0" * 64}]}, "plain name"), ({"files": 2 * content()["files"]}, "stands twice"),
    ({"privileged": ["the_future"]}, "end_state"), ({"kind": "rollouts"}, "program"), ({"tasks": ["single_goal"]}, "tasks"),
    ({"tasks": 2 * ["single_goal@1"]}, "single_goal@1 stands twice"), ({"privileged": 2 * ["end_state"]}, "end_state stands twice"),
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
    for words in (("check", "leaderboard/entries/fake.yaml"), ("page", "leaderboard")):
        run(*words, code=3)
        assert "fake.yaml" in capsys.readouterr().err
    assert not Path("leaderboard/README.md").exists()


def test_weights_are_of_registered_models_alone(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(content() | {"kind": "weights", "model": "sgnet"}))
    assert read_entry(path).kind == "weights"
    path.write_text(json.dumps(content() | {"kind": "weights"}))
    with pytest.raises(Refused, match="mine.yaml"):
        read_entry(path)


@pytest.mark.parametrize("name", ["frozen_world", "nearest_carries", "a b", "ä"])
def test_names_of_references_and_odd_names_are_no_entries(tmp_path, name):
    path = tmp_path / f"{name}.yaml"
    path.write_text(json.dumps(content()))
    with pytest.raises(BadData, match="no name of an entry"):
        read_entry(path)


def test_what_a_stranger_writes_is_shown_as_text():
    said = yaml.safe_load(HOSTILE.read_text())["submission"]["by"] + "<script>`_*~\\"
    assert not set("[]()|<>*`_~\n\\") & set(plain_text_of(said)) and "](http" not in plain_text_of(said)


def test_entries_and_scores_are_not_changed_together(tmp_path):
    git_words("init", "-q", "-b", "main", folder=tmp_path)
    (tmp_path / "leaderboard/entries").mkdir(parents=True)
    (tmp_path / "leaderboard/scores").mkdir()
    for name in ("README.md", "entries/a.yaml", "scores/a.yaml"):
        (tmp_path / "leaderboard" / name).write_text("one")
        commit(tmp_path, name)
    refuse_together("HEAD~1", tmp_path)
    with pytest.raises(Refused, match="entries/a.yaml and leaderboard/scores/a.yaml"):
        refuse_together("HEAD~2", tmp_path)
    (tmp_path / "leaderboard/entries/a.yaml").rename(tmp_path / "leaderboard/scores/b.yaml")
    commit(tmp_path, "an entry becomes a score")
    with pytest.raises(Refused):
        refuse_together("HEAD~1", tmp_path)
    (tmp_path / "leaderboard/entries/c.yaml").write_text("three")
    (tmp_path / "leaderboard/README.md").write_text("rank 1")
    commit(tmp_path, "an entry writes its rank")
    with pytest.raises(Refused, match="README.md"):
        refuse_together("HEAD~1", tmp_path)
    with pytest.raises(UsageError, match="no commit"):
        refuse_together("nowhere", tmp_path)
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yaml").read_text())
    assert any(
        "leaderboard check --apart" in step.get("run", "")
        for job in workflow["jobs"].values()
        for step in job["steps"]
    )


# requests and rollouts of a program


def test_a_part_is_given_out_after_the_rollouts_of_the_part_before(inside, tmp_path, capsys):
    files = sorted(Path.cwd().glob("requests-*.npz"))
    said = [json.loads(str(np.load(file)["about"])) for file in files]
    assert [(about["part"], about["parts"], len(about["sealed"])) for about in said] == [
        (k, len(files), 3 * min(k, 1)) for k in range(len(files))
    ]
    again = ("requests", ENTRY, "--out", str(tmp_path / "again.npz"), *FEW)
    run(*again)
    for given, said in (
        (("rollouts/0-0.npz",), "part 0 has no rollouts of training seed 1"),
        (("rollouts/1-0.npz",), "answers no part")
    ):
        run(
            *again, *(word for file in given for word in ("--rollouts", file)),
            code=2 if "seed 1" in said else 3
        )
        assert said in capsys.readouterr().err
    run(*again, *ROLLOUTS)
    assert f"all {len(files)} parts are answered" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again-0.npz"]


def test_rollouts_that_change_after_the_next_part_was_given_out_are_refused(inside, tmp_path, capsys):
    for file in Path("rollouts").iterdir():
        arrays, about = read_arrays(file, ("rollouts", "request"))
        changed = {"rollouts": arrays["rollouts"] + np.float32(file.name == "0-2.npz")}
        write_rollout_arrays(tmp_path / file.name, arrays | changed, about)
    run("score", ENTRY, "--rollouts", str(tmp_path), *FEW, code=3)
    assert "answers no part" in capsys.readouterr().err


def test_rollouts_of_a_part_are_missing(inside, capsys):
    first = [word for seed in range(3) for word in ("--rollouts", f"rollouts/0-{seed}.npz")]
    run("score", ENTRY, *first, *FEW, code=2)
    assert "(counted from 0) has no rollouts" in capsys.readouterr().err
    run("score", ENTRY, *FEW, code=2)
    assert "run it part by part" in capsys.readouterr().err


def test_rollouts_that_say_another_model_are_refused(inside, tmp_path, capsys):
    arrays, about = read_arrays("rollouts/0-0.npz", ("rollouts", "request"))
    for name, value in (("model", "other"), ("privileged", ["end_state"]), ("seed", 7)):
        file = write_rollout_arrays(tmp_path / f"{name}.npz", arrays, about | {name: value})
        run("requests", ENTRY, "--out", str(tmp_path / "again.npz"), "--rollouts", str(file), *FEW, code=3)
        assert (name if name != "seed" else "training seed 7") in capsys.readouterr().err


def test_the_program_knows_nothing_of_the_package(fork):
    assert "aawm" not in (fork / "carry.py").read_text()


# scores


def test_scores_say_when_on_which_trials_and_on_what(inside):
    scores = read_scores(scores_path(inside))
    entry = read_entry(inside)
    assert scores.commit == entry_commit(inside) and scores.seed == commit_seed(
        scores.commit
    ) and scores.trials == 54 < entry.trials
    assert scores.versions.keys() >= {"aawm", "numpy"} and scores.machine == {
        name: value or None for name, value in machine().items()
    }
    assert len(scores.marks) == 54 and len(scores.when) == 10 and len(scores.rollouts) == 3 * len(
        {file.part for file in scores.rollouts}
    )
    assert open_trials(next(Path("data/leaderboard").iterdir())).attrs["data_hash"] == scores.data_hash
    first, *references = [row.name for row in board_rows("leaderboard")]
    assert first == NAME and set(references) == {
        "true_world", "nearest_carries", "frozen_world", "constant_velocity"
    }


def test_scored_again_it_has_the_same_numbers(inside):
    before = read_scores(scores_path(inside))
    run("check", ENTRY, "--recompute", *ROLLOUTS, "--no-progress")
    run("score", ENTRY, *ROLLOUTS, *FEW)
    assert read_scores(scores_path(inside)).model_copy(update={"when": before.when}) == before


def test_trials_that_differ_in_their_last_bits_are_the_same_and_others_are_not(inside):
    old = read_scores(scores_path(inside))
    # as of another processor
    change_scores(inside, data_hash="0" * 64, marks=[mark + (-1) ** k for k, mark in enumerate(old.marks)])
    assert recheck_entry(inside, entry_tests(inside, 54), rollouts=["rollouts"], progress=False) == []
    change_scores(inside, data_hash="0" * 64, marks=[*old.marks[:-1], old.marks[-1] + 100])
    faults = recheck_entry(inside, entry_tests(inside, 54), rollouts=["rollouts"], progress=False)
    assert "1 of 54 trials, the first of them trial 53" in faults[0]
    change_scores(inside, data_hash="0" * 64, marks=old.marks, events="0" * 64)
    assert "other events" in recheck_entry(
        inside, entry_tests(inside, 54), rollouts=["rollouts"], progress=False
    )[0]


@pytest.mark.parametrize("change, said", [
    ({"jump": 0.0}, "largest jump"), ({"alone": 0.9}, "movement alone"), ({"scores": []}, "the file says None"),
    ({"goal": GoalNumber(value=1.0, low=1.0, high=1.0, by_seed=[1.0])}, "goal score"),
])  # fmt: skip
def test_each_number_is_compared(inside, change, said):
    scores = read_scores(scores_path(inside))
    assert score_differences(scores, scores, 0.0) == []
    assert any(said in fault for fault in score_differences(scores.model_copy(update=change), scores, 0.02))


def test_scores_that_were_changed_by_hand_are_found(inside, capsys):
    old = read_scores(scores_path(inside))
    better = [row.model_copy(update={"value": 1.0}) if row.metric == "recall" else row for row in old.scores]
    change_scores(inside, rollouts=[], scores=better)
    run("check", ENTRY, "--recompute", *ROLLOUTS, "--no-progress", code=3)
    said = capsys.readouterr().err
    assert "not the rollouts that were scored" in said and "more)" in said and said.count("\n") == 1


def test_scores_are_of_the_entry_as_it_stands(inside, capsys):
    text = inside.read_text()
    inside.write_text(text.replace("by: somebody", "by: somebody else"))
    run("check", ENTRY, code=3)
    assert "another form of this entry" in capsys.readouterr().err
    with pytest.raises(BadData, match="another form"):
        board_rows("leaderboard")
    run("score", ENTRY, *ROLLOUTS, *FEW, code=2)
    assert "not committed" in capsys.readouterr().err
    inside.write_text(text)
    change_scores(inside, seed=1)
    assert scores_faults(inside) == ["the seed of its trials is not that of its commit"]
    change_scores(inside, commit="f" * 40)
    assert "tested for commit ffffffffffff" in scores_faults(inside)[0]


def test_without_its_rollouts_a_program_is_not_computed_again(inside, capsys):
    run("check", ENTRY, "--recompute")
    assert "not computed again: its rollouts are not here" in capsys.readouterr().out
    run("score", "--no-progress")
    assert "no entry of weights waits" in capsys.readouterr().out


def test_scores_lie_beside_the_folder_of_entries(tmp_path):
    assert scores_path(tmp_path / "entries/a.yaml") == tmp_path / "scores/a.yaml"
    with pytest.raises(UsageError, match="entries"):
        scores_path(tmp_path / "a.yaml")


def test_an_entry_of_the_same_name_stays(inside, capsys):
    words = (
        "enter", NAME, "--file", "0=carry.py", "--code", "https://example.org", "--files-at",
        "https://example.org", "--by", "somebody else"
    )
    before = inside.read_text()
    run(*words, code=2)
    assert "--replace" in capsys.readouterr().err and inside.read_text() == before
    run(*words, "--replace")
    assert "somebody else" in inside.read_text()


# ranks and the page


def goal(low: float, high: float) -> GoalNumber:
    return GoalNumber(value=(low + high) / 2, low=low, high=high, by_seed=[0.0])


def test_few_trials_leave_the_goal_score_open():
    def none_found(seconds: int) -> dict:
        "All shares are 0; few or many trials have a second goal."
        rows = [
            (0, *question, metric, 0.0, *wilson(0.0, seconds if question[1] == "2nd" else 40))
            for question in QUESTIONS
            for metric in ("recall", "false_positive")
        ]
        return goal_number(
            pd.DataFrame(rows, columns=["training_seed", "task", "target", "metric", "value", "low", "high"])
        )

    few = none_found(2)
    many = none_found(40)
    assert (
        few["value"] == many["value"] == 0
        and few["low"] < -0.2 < many["low"] < -0.03 < 0 < many["high"] < 0.06
    )


def test_entries_whose_intervals_overlap_tie():
    assert rank_words([goal(0.5, 0.6), goal(0.3, 0.4), goal(0.1, 0.35), goal(0.0, 0.09)]) == [
        "1", "2 to 3", "2 to 3", "4"
    ]
    assert rank_words([goal(0.0, 0.0), goal(0.0, 0.0)]) == [
        "1 to 2", "1 to 2"
    ] and rank_words([goal(0.0, 0.1)]) == ["1"]


def test_references_and_what_is_given_more_have_no_rank(inside):
    row = board_rows("leaderboard")[0]
    given = Row("mine", row.scores, row.entry.model_copy(update={"privileged": ["end_state"]}))
    few = Row("few", row.scores, row.entry.model_copy(update={"files": row.entry.files[:2]}))
    value = row.scores.model_copy(update={"goal": goal(0.1, 0.2)})
    table = board_table(
        [Row(NAME, value, row.entry), given, few, Row("nearest_carries", value), Row("true_world", value)]
    )
    assert table["rank"].tolist() == ["1", "-", "-", "-", "-"] and table.entry[3] == "*Nearest carries*"
    assert {
        *BOARD_COLUMNS.values(), "largest jump, m", "moves alone", "goal score"
    } <= set(table) and table.trials[0] == "54 of 1000"
    assert all(line.count(" | ") == table.shape[1] - 1 for line in markdown_table(table).splitlines())


def test_the_page_shows_entries_and_references(inside):
    run("page")
    text = Path("leaderboard/README.md").read_text()
    assert (
        f"| {NAME} | context | 3 | 54 of 1000 |" in text and "*Nearest carries*" in text
        and "*Frozen world*" in text
    )
    assert "1 tested entry" in text and Path("leaderboard/figure3.png").is_file()


def test_a_shallow_clone_is_refused(inside, tmp_path):
    Path("leaderboard/later.txt").write_text("")
    commit(Path.cwd(), "later")
    git_words("clone", "-q", "--depth", "1", Path.cwd().as_uri(), str(tmp_path / "shallow"), folder=tmp_path)
    with pytest.raises(UsageError, match="--unshallow"):
        entry_commit(tmp_path / "shallow" / ENTRY)


def test_entries_and_scores_of_this_repository_are_in_form():
    paths = sorted((ROOT / "leaderboard/entries").glob("*.yaml"))
    assert len(paths) >= 10
    for path in paths:
        entry = read_entry(path)
        assert entry.kind == "weights" and len(entry.files) == 3, path
    for path in (ROOT / "leaderboard/scores").glob("*.yaml"):
        assert len(read_scores(path).scores) > 20, path
