"""Every `aawm ...` and `make ...` line that README, pages and `--help` print: all are understood, and at night typed in order.

In a copy of the clone and, but for what needs a clone, from the wheel in an empty folder."""

import ast
import contextlib
import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import typer
from markdown_it import MarkdownIt

from aawm.cli import app, code_first
from aawm.tests.conftest import FIXTURES, ROOT
from aawm.tests.test_wheel import program, wheel  # noqa: F401  # fixtures


def source(page):
    "The file that a page shows."
    cells = nbformat.read(ROOT / "nbs" / page, as_version=4).cells
    shown = next(cell.source for cell in cells if cell.cell_type == "code" and cell.source.startswith("source = '''"))
    return ast.literal_eval(ast.parse(shown).body[0].value).lstrip()


WHOLE = typer.main.get_command(app)
SHELL = re.compile(r"(aawm|make|mkdir|for part) ")  # lines that are typed; `git`, `pip` and `nbgrader` need what no test has
# what stands for something else, and what needs a server or a commit of one's own
PLACEHOLDERS = re.compile(r"\.\.\.|\b(VERB|WHAT|NAME|HOST|PAGE|STORE|FOLDER|FILE|SEED)\b|localhost|example\.org|people=")
CLONE_ONLY = re.compile(r"make ")
# what the text takes for granted, typed before the first line that begins so
GIVEN = {
    "aawm import-released swm_data": "aawm generate given --trials 9 --fidelity planar && aawm export-released given . && "
    "python -m zipfile -c swm_data.zip swm_data.pkl swm_data_exp_info.pkl",
    "aawm import-raw trials": f"cp -r {ROOT}/data/sample trials && rm trials/sample.json",
    "aawm requests data/test": "aawm generate data/test --trials 36 --seed 5",
    "aawm score rollouts-0.npz": "for k in 0 1 2; do if [ -f requests-$k.npz ]; then python answer.py requests-$k.npz rollouts-$k.npz; fi; done",
    "aawm outcomes data/quick": "for model in event_transformer sgnet; do aawm evaluate $model data/test data/quick/evaluations/$model "
    "--split all --tasks single_goal,multi_goal; done",
    "aawm play data/trials --trial 12": "aawm train rssm_discrete data/trials data/runs/rssm --preset smoke --steps 2",
    "aawm evaluate mine.py": "cp trained.py mine.py",
    "aawm --code hider.py --code hidden.py": "aawm --code hider.py generate trials --scenario hider_static --trials 24",
    "aawm compare data/evaluations/mine data": "rm -r data/evaluations/mine && aawm evaluate mine.py:Trained data/trials data/evaluations/mine",
    "aawm compare 'data/evaluations/mine-*'": "for k in 0 1; do for name in mine longer; do aawm evaluate sgnet@$k data/test "
    "data/evaluations/$name-$k --split all --tasks single_goal; done; done",
    "aawm compare data/runs/mine": "aawm train oracle data/trials data/runs/mine --preset smoke --steps 2",
    "aawm view data/evaluations/mine data/runs/mine": "rm -r data/evaluations/mine && aawm evaluate data/runs/mine data/test "
    "data/evaluations/mine --split all --tasks single_goal",
    "aawm view data/evaluations/mine data/evaluations/sgnet": "rm -r data/evaluations/sgnet && aawm evaluate sgnet data/test "
    "data/evaluations/sgnet --split all --tasks single_goal",
    "aawm figure fig3 --profile laptop": "mkdir data/laptop && cp -r data/test data/laptop && for model in event_transformer sgnet; "
    "do aawm evaluate $model data/test data/laptop/evaluations/$model --split all --scoring published; done",
    "aawm infant import BIB": f"mkdir -p BIB/preference && cp {FIXTURES}/infant/*.gz BIB/preference",
    "aawm infant import 000010loe": f"cp {FIXTURES}/infant/*.gz .",
    "aawm infant train state_transformer": "for set in preference single_object; do aawm infant generate data/train_$set --set train_$set --items 20; done",
    "aawm infant score answers.csv": "python program.py data/requests/files answers.csv",
    "aawm marple import-released": f"mkdir -p data/test && tar -xf {FIXTURES}/marple/written.tar.xz -C data/test && cp data/test/experiments.json .",
    "aawm marple generate data/released-houses": f"cp {FIXTURES}/marple/init*.json .",
    "aawm study score": f"rm -rf study && cp -r {ROOT}/nbs/study/assets/class/goals study && mkdir answers && cp study/answers.csv answers",
}
ANSWER = """import json, sys
import numpy as np

asked = np.load(sys.argv[1])
last = asked["states"][np.arange(len(asked["context"])), asked["context"] - 1]
rollouts = np.repeat(last[:, None], asked["horizon"].max(), axis=1)
about = json.dumps({"digest": json.loads(str(asked["about"]))["digest"], "model": "still", "seed": 0})
np.savez(sys.argv[2], rollouts=rollouts, request=np.arange(len(rollouts)), about=about)
"""
PROGRAM = """import csv, sys
from pathlib import Path

with open(sys.argv[2], "w", newline="") as table:
    rows = csv.writer(table)
    rows.writerow(["file", "surprise"])
    rows.writerows([path.name, path.stat().st_size] for path in sorted(Path(sys.argv[1]).iterdir()) if path.suffix in (".npz", ".mp4"))
"""
TRAINED = """import torch


class Trained:
    def rollout(self, states, context, horizon, generator=None, mode=False, privileged=None):
        return states[torch.arange(len(states)), context - 1][:, None].expand(-1, horizon, -1)
"""


OWN = {
    "glide.py": source("models/10_your_own_model.ipynb"), "trained.py": TRAINED, "answer.py": ANSWER, "model.py": ANSWER,
    "program.py": PROGRAM, "hider.py": source("guides/01_a_new_behavior.ipynb"), "hidden.py": source("guides/02_a_new_event_rule.ipynb"),
    "hiding.py": source("guides/03_a_new_evaluation.ipynb")
}


@functools.cache
def texts() -> dict[str, list[str]]:
    "The prose of README and of every page."
    pages = {"README.md": [(ROOT / "README.md").read_text(encoding="utf-8")]}
    for path in sorted((ROOT / "nbs").rglob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        name = path.relative_to(ROOT).as_posix()
        pages[name] = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    return pages


def lines_of(text: str) -> list[str]:
    "The lines of a shell in the blocks of a text, comments left out, and continued lines joined."
    text = re.sub(r"\\\n\s*", "", text)
    fenced = "\n".join(re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)).splitlines()
    lines = [re.split(r"\s+# ", line.strip())[0] for line in [*re.findall(r"(?m)^ {4}(.+)$", text), *fenced]]
    return [part for line in lines for part in line.split(" && ") if SHELL.match(part)]


COMMAND = re.compile(r"(git clone|pip install|make (figures|install|test|docs|lab|readme)\b|aawm [a-z-]+ )")


def bare_commands(text: str) -> list[str]:
    "Commands that a reader sees as prose, by CommonMark: at the beginning of a line, and not in code."
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    words = [child for token in tokens for child in token.children or () if child.type == "text"]
    return [child.content for child in words if COMMAND.match(child.content.strip())]


def test_every_command_is_seen_as_code():
    bare = {page: found for page, cells in texts().items() for text in cells if (found := bare_commands(text))}
    assert not bare
    assert bare_commands("- A point.\n\n    make figures") == ["make figures"], "four spaces continue a list's item"
    assert not bare_commands("A point.\n\n    make figures\n\n`make docs` and\n```sh\naawm list models\n```")


def test_the_readme_is_short_and_its_pictures_have_few_words():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    alts = re.findall(r"!\[([^\]]*)\]\(", text)
    assert len(text.splitlines()) <= 150 and len(alts) >= 3
    assert not [alt for alt in alts if not 5 < len(alt.split()) < 40]
    assert "badge" not in text and "\n```sh\ngit clone" in text


def helps(command=None, name: str = "aawm") -> dict[str, list[str]]:
    "The examples of every verb's help."
    command = command or WHOLE
    found = {name: re.findall(r"(?:(?<=Example: )|(?<=Examples: )|(?<=; ))aawm [^;(]+", command.epilog or "")}
    for verb, inner in getattr(command, "commands", {}).items():
        found |= helps(inner, f"{name} {verb}")
    return {verb: examples for verb, examples in found.items() if examples}


def printed() -> list[tuple[str, str]]:
    "Where, and each command that stands in a block, in a line of prose or in help."
    found = [(page, line) for page, cells in texts().items() for text in cells for line in lines_of(text)]
    for page, cells in texts().items():
        found += [(page, line) for text in cells for line in re.findall(r"`((?:aawm|make) [^`\n]+)`", text)]
    found += [(f"{verb} --help", line) for verb, lines in helps().items() for line in lines]
    return sorted({(page, line) for page, line in found if line.startswith(("aawm ", "make "))})


def fault_of(line: str) -> str:
    "Why the program does not understand a line, or nothing; words that are left out are no fault."
    first, *words = shlex.split(line.replace("...", ""))
    words = words if first == "make" else code_first(words)
    if first == "make":
        targets = [word for word in words if "=" not in word]
        rules = re.findall(r"(?m)^([\w-]+):", (ROOT / "Makefile").read_text())
        return "; ".join(f"make has no {target}" for target in targets if target not in rules)
    command = WHOLE
    while words[:1] == ["--code"]:
        words = words[2:]
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        name = words.pop(0)
        if name not in {*command.commands, "VERB"}:
            return f"there is no verb {name}"
        command = command.commands.get(name, command)
    try:
        with contextlib.redirect_stdout(None):
            command.make_context("aawm", words)
    except Exception as fault:  # typer's own copy of click has its own
        said = getattr(fault, "format_message", str)()
        left_out = "requires an argument" in said or type(fault).__name__ in ("Exit", "NoArgsIsHelpError", "MissingParameter")
        return "" if left_out else said
    return ""


def test_every_printed_command_is_understood():
    lines = printed()
    assert len(lines) > 150 and len([where for where, _ in lines if where.endswith("--help")]) > 40
    assert not {f"{where}: {line}": fault_of(line) for where, line in lines if fault_of(line)}


@pytest.mark.parametrize("line", ["aawm trian x", "aawm train --preest smoke", "make figurse", "aawm marple infr x"])
def test_a_wrong_line_is_noticed(line):
    assert fault_of(line)


PAGES = {page: [line for text in cells for line in lines_of(text)] for page, cells in texts().items()}
SHEETS = {page: lines for page, lines in PAGES.items() if lines and not page.startswith(("nbs/index", "nbs/studies"))}  # studies take hours
SHEETS |= {"aawm --help": [line for verb, lines in helps().items() if verb.count(" ") == 1 for line in lines]}
SHEETS |= {
    f"aawm {wing} --help": [line for verb, lines in helps().items() if verb.startswith(f"aawm {wing} ") for line in lines]
    for wing in ("infant", "marple", "study")
}


# what a line names as a file or folder: it is there afterwards; requests.npz comes in parts, requests-0.npz and so on
NAMED = re.compile(r"(?<=\s)(?:--(?:out|save|card)\s+([^\s*]+)|([\w-]+(?:/[\w.-]+)+|[\w-]+\.[a-z]\w*))(?=\s|$)")


def missing(line: str, folder: Path) -> list[str]:
    "Files and folders that a line names and that are not in the folder."
    named = [Path(one or other) for one, other in NAMED.findall(line)]
    return [str(path) for path in named if not (folder / path).exists() and not list((folder / path.parent).glob(f"{path.stem}-*{path.suffix}"))]


def typed(lines: list[str], folder: Path, path: Path, clone: bool) -> list[str]:
    "Type lines in a folder, each after what it takes for granted; those that were typed."
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}
    given = dict(GIVEN)
    done = []
    for name, text in OWN.items():
        (folder / name).write_text(text)
    for line in lines:
        if PLACEHOLDERS.search(line) or CLONE_ONLY.match(line) and not clone:
            continue
        before = [given.pop(start) for start in list(given) if line.startswith(start)]
        line = line.replace("make ", "make --dry-run ", 1) if line.startswith("make ") else line
        line += " --trials 36" if line.endswith("--set visits") else ""
        line += " --no-open" if line.startswith("aawm play") and "--save" not in line else ""
        for one in (*before, line):
            said = subprocess.run(["bash", "-c", one], cwd=folder, env=environment, capture_output=True, text=True)
            assert said.returncode == 0, f"{one}\n{said.stdout[-1500:]}{said.stderr[-1500:]}"
        assert said.stdout.strip() or not line.startswith("aawm "), f"{line}\nsays nothing"
        assert not re.search("Warning:|Traceback", said.stdout + said.stderr), f"{line}\n{said.stdout[-1500:]}{said.stderr[-1500:]}"
        assert not missing(line, folder), f"{line}\nnames what is not there afterwards: {missing(line, folder)}"
        done.append(line)
    return done


@pytest.mark.slow
@pytest.mark.parametrize("sheet", SHEETS)
def test_printed_commands_are_typed_in_a_clone(sheet, tmp_path):
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("figures/"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    print(*typed(SHEETS[sheet], tmp_path, Path(sys.executable).parent, clone=True), sep="\n")


@pytest.mark.slow
@pytest.mark.parametrize("sheet", SHEETS)
def test_printed_commands_are_typed_from_the_wheel(sheet, program, tmp_path):  # noqa: F811
    print(*typed(SHEETS[sheet], tmp_path, program.parent, clone=False), sep="\n")


def test_the_collector_finds_what_is_printed(tmp_path):
    lines = [line for sheet in SHEETS.values() for line in sheet]
    assert not [start for start in GIVEN if not any(line.startswith(start) for line in lines)]
    for name in ("mine.py", "requests-0.npz"):
        (tmp_path / name).touch()
    made = "aawm train mine.py:Trained trials data/run --set rate=.5 --threshold 2.5 --out requests.npz --card card.md"
    assert missing(made, tmp_path) == ["data/run", "card.md"]
    text = "Words `aawm list models`:\n\n    aawm train a b c \\\n        --steps 3  # a test\n    mkdir x && make docs\n    ls\n"
    assert lines_of(text) == ["aawm train a b c --steps 3", "mkdir x", "make docs"]
    assert lines_of("```\naawm list models\n```") == ["aawm list models"]
    assert helps()["aawm train"][-1].startswith("aawm train sgnet") and "aawm marple infer" in helps()
