"""The leaderboard: a program in NumPy alone is entered and scored; what was tampered with, or cannot be ranked, is refused."""

import ast
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

from aawm import cli
from aawm.errors import BadData, UsageError
from aawm.evaluation.entries import commit_seed, entry_faults, git_words, read_entry, standing_of, submission_commit, write_entry
from aawm.files import resolve
from aawm.runs.leaderboard import board_table, entry_tests

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "nbs/guides/07_enter_the_leaderboard.ipynb"
ENTRY = "leaderboard/entries/carry.yaml"


def commit(folder: Path, words: str) -> None:
    told = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    git_words("add", "leaderboard", folder=folder)
    git_words(*told, "commit", "-q", "-m", words, folder=folder)


@pytest.fixture(scope="module")
def fork(tmp_path_factory):
    "A repository with the guide's program entered, committed and scored on 27 trials."
    folder = tmp_path_factory.mktemp("fork")
    (folder / "settings.ini").touch()
    (folder / "nbs").mkdir()
    cells = nbformat.read(GUIDE, as_version=4).cells
    shown = next(cell.source for cell in cells if cell.source.startswith("source = '''"))
    (folder / "carry.py").write_text(ast.literal_eval(ast.parse(shown).body[0].value).lstrip())
    git_words("init", "-q", folder=folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        files = [word for seed in range(3) for word in ("--file", f"{seed}=carry.py")]
        run("enter", "carry", *files, "--code", "https://example.org", "--by", "somebody", "--trials", "27")
        with pytest.raises(UsageError, match="not committed"):
            entry_tests(ENTRY)
        commit(folder, "enter")
        run("requests", ENTRY, "--out", "requests.npz", "--workers", "1", "--no-progress")
        for seed in range(3):
            subprocess.run([sys.executable, "-I", "carry.py", "requests.npz", f"r{seed}.npz", str(seed)], check=True)
        run("score", ENTRY, *rollouts(), "--no-progress")
        commit(folder, "score")
    return folder


def rollouts(seeds: range = range(3)) -> list:
    return [word for seed in seeds for word in ("--rollouts", f"r{seed}.npz")]


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


def test_the_program_knows_nothing_of_the_package(fork):
    assert "aawm" not in (fork / "carry.py").read_text()


def test_scored_again_it_has_the_same_numbers(inside):
    before = read_entry(inside)
    run("check", ENTRY, "--recompute", *rollouts(), "--no-progress")
    run("score", ENTRY, *rollouts(), "--no-progress")
    assert read_entry(inside) == before
    assert "27 of 1000 test trials" in standing_of(inside) and "not run again" in standing_of(inside)


def test_a_tampered_score_is_refused(inside, capsys):
    entry = read_entry(inside)
    for row in entry["result"]["scores"]:
        if row["metric"] == "recall":
            row |= {"value": 1.0, "high": 1.0}
    write_entry(inside, entry)
    assert entry_faults(inside) == []
    run("check", ENTRY, "--recompute", *rollouts(), "--no-progress", code=3)
    said = capsys.readouterr().err
    assert "the entry says 1.0, computed anew it is" in said and said.count("\n") == 1


@pytest.mark.parametrize("half, change, said", [
    ("submission", {"privileged": ["end_state"]}, "since no commit yet"), ("submission", {"about": "."}, "since no commit yet"), ("result", {"seed": 1}, "seed 1 is not"),
    ("result", {"commit": "f" * 40}, "is not that of its commit"), ("submission", {"tasks": ["single_goal@0"]}, "not one that aawm"),
])  # fmt: skip
def test_a_tampered_entry_is_refused(inside, half, change, said, capsys):
    entry = read_entry(inside)
    write_entry(inside, entry | {half: entry[half] | change})
    assert any(said in fault for fault in entry_faults(inside))
    run("check", ENTRY, code=3)
    with pytest.raises(BadData):
        board_table(inside.parent)


def test_other_rollouts_than_those_that_were_scored_are_refused(inside, capsys):
    run("check", ENTRY, "--recompute", *rollouts(range(2)), "--no-progress", code=2)
    subprocess.run([sys.executable, "-I", "carry.py", "requests.npz", "r9.npz", "2"], check=True)
    text = Path("carry.py").read_text().replace("1.2, 0.1", "0.2, 0.1")
    Path("slow.py").write_text(text)
    subprocess.run([sys.executable, "-I", "slow.py", "requests.npz", "slow.npz", "2"], check=True)
    run("check", ENTRY, "--recompute", *rollouts(range(2)), "--rollouts", "slow.npz", "--no-progress", code=3)
    assert "not the rollouts that were scored" in capsys.readouterr().err


def test_fewer_than_three_seeds_are_not_ranked(inside, tmp_path):
    run("check", ENTRY, "--ranking", code=3)
    entry = read_entry(inside)
    few = {"submission": entry["submission"] | {"weights": entry["submission"]["weights"][:1], "trials": 1000}}
    path = write_entry(inside.with_name("few.yaml"), few)
    result = entry["result"] | {"rerun": "a maintainer", "scores": [row for row in entry["result"]["scores"] if row["training_seed"] == 0]}
    commit(Path.cwd(), "few")
    result |= {"commit": submission_commit(path), "seed": commit_seed(submission_commit(path))}
    write_entry(path, few | {"result": result})
    assert entry_faults(path) == [] and standing_of(path) == "provisional: 1 of 3 training seeds"
    path.unlink()
    commit(Path.cwd(), "gone")


def test_the_page_shows_who_is_provisional(inside, capsys):
    run("page")
    text = Path("leaderboard/README.md").read_text()
    assert "| - | carry | context | 3 |" in text and "All are provisional" in text and text.count("[guide]") == 0


def test_entries_of_this_repository_are_valid():
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
    run("score", ENTRY, *rollouts(), "--no-progress", code=2)
    assert "not committed" in capsys.readouterr().err


def test_words_that_are_none_of_ours_are_refused(inside, capsys):
    run("enter", "other", "--file", "0=carry.py", "--code", "x", "--by", "y", "--given", "the_future", code=2)
    assert "end_state" in capsys.readouterr().err
    entry = read_entry(inside)
    entry["result"]["scores"][0]["value"] = "high"
    write_entry(inside, entry)
    with pytest.raises(BadData, match="value must be of type"):
        read_entry(inside)
