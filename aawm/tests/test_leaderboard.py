"""The leaderboard: a program in NumPy alone is entered and scored; what was tampered with, or cannot be ranked, is refused."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
import yaml

from aawm import cli
from aawm.errors import BadData, UsageError
from aawm.evaluation.entries import (
    commit_fault, commit_seed, entry_faults, git_words, read_entry, rerun_by, standing_of, submission_commit, write_entry,
)
from aawm.evaluation.exchange import read_arrays, write_rollout_arrays
from aawm.files import resolve
from aawm.runs.leaderboard import board_table, entry_tests, recheck_entry, waiting_entries

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "nbs/guides/07_enter_the_leaderboard.ipynb"
NAME = "straight_carry"
ENTRY = f"leaderboard/entries/{NAME}.yaml"
ROLLOUTS = ("--rollouts", "rollouts")
PARTS = 2  # of its requests


def commit(folder: Path, words: str) -> None:
    told = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    git_words("add", "leaderboard", folder=folder)
    git_words(*told, "commit", "-q", "-m", words, folder=folder)


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
        run("enter", NAME, *files, "--code", "https://example.org", "--by", "somebody", "--trials", "54")
        with pytest.raises(UsageError, match="not committed"):
            entry_tests(ENTRY)
        commit(folder, "enter")
        (folder / "rollouts").mkdir()
        for part in range(PARTS):
            run("requests", ENTRY, "--out", "requests.npz", *ROLLOUTS, "--workers", "1", "--no-progress")
            roll_out("carry.py", part)
        run("score", ENTRY, *ROLLOUTS, "--no-progress")
        commit(folder, "score")
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
    "The repository as the working folder; its entry is afterwards as it was."
    monkeypatch.chdir(fork)
    before = Path(ENTRY).read_text()
    yield Path(ENTRY)
    Path(ENTRY).write_text(before)
    Path("leaderboard/reruns.yaml").unlink(missing_ok=True)


def test_a_part_is_given_out_after_the_rollouts_of_the_part_before(inside, tmp_path, capsys):
    said = [json.loads(str(np.load(f"requests-{part}.npz")["about"])) for part in range(PARTS)]
    assert [(about["part"], about["parts"], len(about["sealed"])) for about in said] == [(0, PARTS, 0), (1, PARTS, 3)]
    again = ("requests", ENTRY, "--out", str(tmp_path / "again.npz"), "--no-progress")
    run(*again)
    for given, said in ((("rollouts/0-0.npz",), "part 0 has no rollouts of training seed 1"), (("rollouts/1-0.npz",), "answers no part")):
        run(*again, *(word for file in given for word in ("--rollouts", file)), code=2 if "seed 1" in said else 3)
        assert said in capsys.readouterr().err
    run(*again, *ROLLOUTS)
    assert "all 2 parts are answered" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again-0.npz"]


def test_rollouts_that_change_after_the_next_part_was_given_out_are_refused(inside, tmp_path, capsys):
    for file in Path("rollouts").iterdir():
        arrays, about = read_arrays(file, ("rollouts", "request"))
        changed = {"rollouts": arrays["rollouts"] + np.float32(file.name == "0-2.npz")}
        write_rollout_arrays(tmp_path / file.name, arrays | changed, about)
    run("score", ENTRY, "--rollouts", str(tmp_path), "--no-progress", code=3)
    assert "answers no part" in capsys.readouterr().err


def test_rollouts_of_a_part_are_missing(inside, capsys):
    first = [word for seed in range(3) for word in ("--rollouts", f"rollouts/0-{seed}.npz")]
    run("score", ENTRY, *first, "--no-progress", code=2)
    assert "part 1 of 2 (counted from 0) has no rollouts" in capsys.readouterr().err


def test_rollouts_that_say_another_model_are_refused(inside, tmp_path, capsys):
    arrays, about = read_arrays("rollouts/0-0.npz", ("rollouts", "request"))
    for name, value in (("model", "other"), ("privileged", ["end_state"]), ("seed", 7)):
        file = write_rollout_arrays(tmp_path / f"{name}.npz", arrays, about | {name: value})
        run("requests", ENTRY, "--out", str(tmp_path / "again.npz"), "--rollouts", str(file), "--no-progress", code=3)
        assert (name if name != "seed" else "training seed 7") in capsys.readouterr().err
    file = write_rollout_arrays(tmp_path / "nameless.npz", arrays, {name: value for name, value in about.items() if name != "model"})
    run("requests", ENTRY, "--out", str(tmp_path / "again.npz"), "--rollouts", str(file), "--no-progress", code=3)
    assert "says model None" in capsys.readouterr().err


def test_the_program_knows_nothing_of_the_package(fork):
    assert "aawm" not in (fork / "carry.py").read_text()


def test_scored_again_it_has_the_same_numbers(inside):
    before = read_entry(inside)
    run("check", ENTRY, "--recompute", *ROLLOUTS, "--no-progress")
    run("score", ENTRY, *ROLLOUTS, "--no-progress")
    assert read_entry(inside) == before
    assert "54 of 1000 test trials" in standing_of(inside) and "not run again" in standing_of(inside)


def test_a_tampered_score_is_refused(inside, capsys):
    entry = read_entry(inside)
    for row in entry["result"]["scores"]:
        if row["metric"] == "recall":
            row |= {"value": 1.0, "high": 1.0}
    write_entry(inside, entry)
    assert entry_faults(inside) == []
    run("check", ENTRY, "--recompute", *ROLLOUTS, "--no-progress", code=3)
    said = capsys.readouterr().err
    assert "the entry says 1.0, computed anew it is" in said and said.count("\n") == 1


@pytest.mark.parametrize("half, change, said", [
    ("submission", {"privileged": ["end_state"]}, "since no commit yet"), ("submission", {"about": "."}, "since no commit yet"), ("result", {"seed": 1}, "seed 1 is not"),
    ("result", {"commit": "f" * 40}, "does not exist in this repository"), ("result", {"versions": {}}, "do not name numpy"), ("submission", {"tasks": ["single_goal@0"]}, "not one that aawm"),
])  # fmt: skip
def test_a_tampered_entry_is_refused(inside, half, change, said, capsys):
    entry = read_entry(inside)
    write_entry(inside, entry | {half: entry[half] | change})
    assert any(said in fault for fault in entry_faults(inside))
    run("check", ENTRY, code=3)
    with pytest.raises(BadData):
        board_table(inside.parent)


@pytest.mark.parametrize("change", [{"count": 1}, {"left_out": 9}, {"low": 0.0}])
def test_all_that_a_score_says_is_computed_again(inside, change, capsys):
    entry = read_entry(inside)
    row = next(row for row in entry["result"]["scores"] if row["metric"] == "ceiling" and row["count"] > 1 and row["low"])
    row |= change
    write_entry(inside, entry)
    run("check", ENTRY, "--recompute", *ROLLOUTS, "--no-progress", code=3)
    assert f"{next(iter(change))}, of training seed 0" in capsys.readouterr().err


@pytest.mark.parametrize("change, said", [({"non_finite": 2}, "it says 2 rollouts were not finite, and 0 are"), ({"rollouts": []}, "not the rollouts that were scored"),
                                          ({"data_hash": "0" * 64, "versions": {"aawm": "0.0.1", "numpy": "1.0"}}, "numpy 1.0 (here")])  # fmt: skip
def test_what_else_an_entry_says_is_compared(inside, change, said):
    entry = read_entry(inside)
    write_entry(inside, entry | {"result": entry["result"] | change})
    assert entry_faults(inside) == []
    assert any(said in fault for fault in recheck_entry(inside, entry_tests(inside), rollouts=["rollouts"], progress=False))


def test_other_rollouts_than_those_that_were_scored_are_refused(inside, tmp_path, capsys):
    Path("slow.py").write_text(Path("carry.py").read_text().replace("1.2, 0.1", "0.2, 0.1"))
    (tmp_path / "slow").mkdir()
    given = ("--rollouts", str(tmp_path / "slow"))
    for part in range(PARTS):
        run("requests", ENTRY, "--out", str(tmp_path / "requests.npz"), *given, "--no-progress")
        for seed in range(3):
            files = [str(tmp_path / f"requests-{part}.npz"), str(tmp_path / f"slow/{part}-{seed}.npz")]
            subprocess.run([sys.executable, "-I", "slow.py", *files, str(seed)], check=True)
    capsys.readouterr()
    run("check", ENTRY, "--recompute", *given, "--no-progress", code=3)
    assert "not the rollouts that were scored" in capsys.readouterr().err
    run("score", ENTRY, *given, "--rerun", "a validator", "--no-progress")
    assert rerun_by(inside) == "a validator" and "not run again" not in standing_of(inside)
    entry = read_entry(inside)
    write_entry(inside, entry | {"result": entry["result"] | {"non_finite": 1}})
    assert rerun_by(inside) == "" and "not run again" in standing_of(inside), "the result is not the validator's any more"
    write_entry(inside, entry | {"result": entry["result"] | {"rerun": "myself"}})
    with pytest.raises(BadData, match="rerun is unknown"):
        read_entry(inside)


def test_without_its_rollouts_an_entry_is_not_computed_again(inside, capsys):
    run("check", ENTRY, "--recompute", code=2)
    assert "its rollouts are not here" in capsys.readouterr().err
    run("check", "--recompute")
    assert "not computed again: its rollouts are not here" in capsys.readouterr().out
    assert waiting_entries([inside]) == [], "rollouts are never scored unasked"
    run("score")
    assert "no entry of weights waits" in capsys.readouterr().out


def test_an_entry_of_the_same_name_stays(inside, capsys):
    words = ("enter", NAME, "--file", "0=carry.py", "--code", "https://example.org", "--by", "somebody else")
    before = inside.read_text()
    run(*words, code=2)
    assert "--replace" in capsys.readouterr().err and inside.read_text() == before
    run(*words, "--replace")
    assert "somebody else" in inside.read_text() and "result" not in read_entry(inside)
    assert commit_fault("a" * 40, inside).endswith("does not exist in this repository; it must be tested again")


def test_fewer_than_three_seeds_are_not_ranked(inside, tmp_path):
    run("check", ENTRY, "--ranking", code=3)
    entry = read_entry(inside)
    few = {"submission": entry["submission"] | {"weights": entry["submission"]["weights"][:1], "trials": 1000}}
    path = write_entry(inside.with_name("few.yaml"), few)
    result = entry["result"] | {"scores": [row for row in entry["result"]["scores"] if row["training_seed"] == 0]}
    commit(Path.cwd(), "few")
    result |= {"commit": submission_commit(path), "seed": commit_seed(submission_commit(path))}
    write_entry(path, few | {"result": result})
    assert entry_faults(path) == [] and standing_of(path) == "provisional: 1 of 3 training seeds, its program was not run again"
    path.unlink()
    commit(Path.cwd(), "gone")


def test_the_page_shows_who_is_provisional(inside, capsys):
    run("page")
    text = Path("leaderboard/README.md").read_text()
    assert f"| - | {NAME} | context | 3 |" in text and "All are provisional" in text and text.count("[guide]") == 0


def test_entries_of_this_repository_are_valid():
    if git_words("rev-parse", "--is-shallow-repository", folder=ROOT).strip() == "true":
        pytest.skip("this clone lacks the history that the entries are dated by")
    for path in sorted(resolve(ROOT / "leaderboard/entries").glob("*.yaml")):
        read_entry(path)
        tasks = yaml.safe_load(path.read_text())["submission"]["tasks"]
        assert tasks and not [fault for fault in entry_faults(path) if "stands since" not in fault], path


def test_a_shallow_clone_is_refused(inside, tmp_path):
    Path("leaderboard/later.txt").write_text("")
    commit(Path.cwd(), "later")
    git_words("clone", "-q", "--depth", "1", Path.cwd().as_uri(), str(tmp_path / "shallow"), folder=tmp_path)
    with pytest.raises(UsageError, match="--unshallow"):
        submission_commit(tmp_path / "shallow" / ENTRY)


def test_an_entry_that_was_changed_is_not_scored_before_it_is_committed(inside, capsys):
    entry = read_entry(inside)
    write_entry(inside, entry | {"submission": entry["submission"] | {"about": "changed"}})
    run("score", ENTRY, *ROLLOUTS, "--no-progress", code=2)
    assert "not committed" in capsys.readouterr().err


def test_words_that_are_none_of_ours_are_refused(inside, capsys):
    run("enter", "other", "--file", "0=carry.py", "--code", "x", "--by", "y", "--given", "the_future", code=2)
    assert "end_state" in capsys.readouterr().err
    entry = read_entry(inside)
    entry["result"]["scores"][0]["value"] = "high"
    write_entry(inside, entry)
    with pytest.raises(BadData, match="value must be of type"):
        read_entry(inside)
