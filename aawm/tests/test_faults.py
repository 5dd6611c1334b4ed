"""Kinds of faults, each held by one rule: nothing is written over, and a call runs only what was typed."""

import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import typing
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
import typer

from aawm import cli, infant
from aawm.data import open_trials, store_trials
from aawm.evaluation import Protocol, evaluate, read_evaluation, save, trained_words
from aawm.errors import AawmError, BadData, UsageError, whole_number
from aawm.evaluation.worlds import as_model
from aawm.files import REGISTER, claim, content_hash, has_changed, resolve, write_text
from aawm.marple.pairs import generate_pairs
from aawm.models.weights import read_tensors, run_settings, ship_weights, write_tensors
from aawm.on_demand import named_in_code
from aawm.runs.catalog import figure_choices
from aawm.runs.cluster import check_scheduler
from aawm.runs.manifest import code_part_digest, profile_values
from aawm.runs.sources import read_module
from aawm.sim import simulate
from aawm.tests.conftest import ROOT, leave, turn
from aawm.tests.test_fuzz import LONGEST, change_bytes, change_content, limited
from aawm.training import fit, load_run

QUICK = dict(steps=2, batch=4, checkpoint_every=2, validate_every=2, log_every=2, validation_windows=4)
SMALL = dict(recurrent_layers=1, recurrent_size=8, hidden_size=8)
CLASS = ROOT / "nbs/study/assets/class/goals"
PROGRAM = typer.main.get_command(cli.app)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    "Small stores of the three worlds, an evaluation, a run, and answers to requests."
    folder = tmp_path_factory.mktemp("faults")
    store_trials(folder / "trials", [simulate("random_random", seed, fidelity="planar") for seed in range(4)])
    save(evaluate("frozen_world", folder / "trials", Protocol(["move"], split=None), progress=False), folder / "evaluation")
    fit("multistep_predictor", folder / "trials", folder / "run", model_settings=SMALL, training_settings=QUICK, progress=False)
    infant.generate(folder / "videos", "efficiency_path", 1, progress=False)
    generate_pairs(folder / "pairs", pairs=1, houses=1, progress=False)
    infant.write_requests(folder / "videos", folder / "asked", size=8, progress=False)
    files = [f"{number:05d}.npz" for number in range(len(list((folder / "asked/files").glob("*.npz"))))]
    shutil.copytree(ROOT / "data/sample/random_random_000004", folder / "raw/random_random_000004")
    for name in ("x.zip", "x.npz"):
        (folder / name).write_text("somebody's work")
    pd.DataFrame({"file": files, "surprise": range(len(files))}).to_csv(folder / "answers.csv", index=False)
    shutil.copytree(CLASS, folder / "class")
    return folder


# verb -> words with the file it writes; what a full call takes is seconds
FILES = {
    "verify": "verify trials --card OUT.md", "outcomes": "outcomes evaluation OUT.csv",
    "play": "play trials --trial 0 --save OUT.html", "view": "view evaluation run --trials trials --rows 1 --out OUT.html",
    "infant evaluate": "infant evaluate bayesian videos --out OUT.csv --no-progress",
    "infant score": "infant score answers.csv --requests asked --out OUT.csv",
    "infant play": "infant play videos --save OUT.gif", "marple play": "marple play pairs --save OUT.html",
    "marple verify": "marple verify pairs --card OUT.md",
    "marple infer": "marple infer pairs --limit 1 --out OUT.csv --no-progress"
}
# verbs that write a folder, or files with names of their own
FOLDERS = {
    "generate": "generate OUT --trials 1", "import-released": "import-released x.zip --out OUT", "import-raw": "import-raw raw --out OUT",
    "export-released": "export-released trials OUT", "train": "train oracle trials OUT --preset smoke --steps 1 --device cpu",
    "evaluate": "evaluate frozen_world trials OUT --split all", "export-weights": "export-weights run OUT",
    "requests": "requests trials --out OUT.npz", "score": "score x.npz --requests x.npz --store trials --out OUT",
    "figure": "figure front --out OUT", "lessons": "lessons --no-data --out OUT",
    "infant generate": "infant generate OUT --set efficiency_path --items 1", "infant import": "infant import raw --out OUT",
    "infant train": "infant train object_transformer videos --out OUT --preset smoke --steps 1",
    "infant requests": "infant requests videos --out OUT",
    "marple import-released": "marple import-released raw --out OUT", "marple generate": "marple generate OUT --pairs 1",
    "marple train": "marple train OUT --pairs 1 --preset smoke", "study build": "study build --out OUT --trials 2",
    "study score": "study score class class/answers.csv --out OUT"
}
OTHERS = {  # they write nothing, or where they are not told to
    "compare": "compare evaluation run --trials trials",
    "reproduce": "reproduce --profile smoke --plan", "new-benchmark": "new-benchmark OUT", "list": "list tasks",
    "check-model": "check-model oracle", "infant verify": "infant verify videos", "infant list": "infant list sets",
}
FROM_NOTHING = {"generate", "figure", "lessons", "infant generate", "marple generate", "marple train", "study build"}


def call(capsys, monkeypatch, place, words, out) -> tuple[int, str]:
    "The exit code and the error stream of a call in the folder of the stores."
    monkeypatch.chdir(place)
    code = leave(*(word.replace("OUT", str(out)) for word in (words.split() if isinstance(words, str) else words)))
    return code, capsys.readouterr().err


def command_of(verb: str) -> click.Command:
    command = PROGRAM
    for name in verb.split():
        command = command.commands[name]
    return command


def all_verbs(command: click.Command, path: str = ""):
    inner = getattr(command, "commands", {})
    yield from (verb for name, one in inner.items() for verb in all_verbs(one, f"{path} {name}".strip()))
    if not inner:
        yield path


def test_every_verb_that_writes_is_tried():
    assert {*all_verbs(PROGRAM)} == {*FILES, *FOLDERS, *OTHERS}


@pytest.mark.parametrize("verb", FILES)
def test_a_file_is_replaced_only_if_the_package_wrote_it_as_it_is(place, tmp_path, capsys, monkeypatch, verb):
    words = FILES[verb]
    suffix = words.rpartition("OUT")[2].split()[0]
    out, stem = tmp_path / f"new{suffix}", tmp_path / "new"
    for _ in range(2):  # yesterday's file is this command's own
        assert call(capsys, monkeypatch, place, words, stem)[0] == 0
    ours = out.read_bytes()
    out.write_text("somebody's work")
    code, err = call(capsys, monkeypatch, place, words, stem)
    assert code == 2 and "--replace" in err and err.count("\n") == 1 and out.read_text() == "somebody's work"
    (tmp_path / f"link{suffix}").symlink_to(out)
    assert call(capsys, monkeypatch, place, words, tmp_path / "link")[0] == 2 and out.read_text() == "somebody's work"
    assert call(capsys, monkeypatch, place, words + " --replace", tmp_path / "link")[0] == 0
    assert len(out.read_bytes()) > 100 < len(ours) and (tmp_path / f"link{suffix}").is_symlink()
    assert not has_changed(out, tmp_path / REGISTER)  # a link is followed, so this is ours again
    assert {path.name for path in tmp_path.iterdir()} == {REGISTER, out.name, f"link{suffix}"}


@pytest.mark.parametrize("verb", [*FILES, *(pytest.param(verb, marks=[pytest.mark.slow] if verb == "study build" else []) for verb in FOLDERS)])
def test_nothing_is_written_inside_what_belongs_together(place, capsys, monkeypatch, verb):
    inside = ("trials", "evaluation", "run", "videos", "pairs")[[*FILES, *FOLDERS].index(verb) % 5]
    before = content_hash(place / inside)
    code, err = call(capsys, monkeypatch, place, (FILES | FOLDERS)[verb], place / inside / "sub/x")
    assert code and err.splitlines()[-1].startswith("aawm: ") and content_hash(place / inside) == before
    assert "belong together" in err or verb.endswith(("import", "import-released")), err  # these look first at what they read


@pytest.mark.parametrize("verb", turn([*FILES, *FOLDERS], 3))
def test_an_input_is_no_output(place, tmp_path, capsys, monkeypatch, verb):
    words = (FILES | FOLDERS)[verb].split()
    out = next(word for word in words if "OUT" in word)
    inputs = [word for word in words if (place / word).exists()]
    assert inputs or verb in FROM_NOTHING
    replaces = any("--replace" in option.opts for option in command_of(verb.removesuffix(" --save")).params)
    for given in inputs:
        before = content_hash(place / given)
        link = tmp_path / f"{len(list(tmp_path.iterdir()))}{Path(given).suffix}"
        link.symlink_to(place / given)
        for path, more in itertools.product((given, str(link)), ((), ("--replace",) if replaces else ())):
            code, err = call(capsys, monkeypatch, place, " ".join([*words, *more]).replace(out, path), path)
            assert code and err.splitlines()[-1].startswith("aawm: ") and content_hash(place / given) == before, (path, more, err)


def damaged(source: Path, folder: Path, draw: random.Random) -> Path:
    "A copy of a file or folder of which one file is empty, cut, changed or gone."
    folder.mkdir(parents=True)
    copy = folder / source.name
    shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
    victim = draw.choice(sorted(path for path in copy.rglob("*") if path.is_file()) if copy.is_dir() else [copy])
    whole = victim.read_bytes()
    what = draw.randrange(4)
    if what == 0:
        victim.unlink()
    elif what == 1 and victim.suffix == ".json":
        victim.write_text(json.dumps(change_content(json.loads(whole), draw)))
    else:
        victim.write_bytes(whole[: len(whole) // 2] if what == 2 else change_bytes(whole, draw))
    return copy


def nonsense(verb: str, place: Path, folder: Path, draw: random.Random):  # yields words, whether they may pass
    "Calls with a path that is wrong or damaged, or an option that has a value that nobody should give it."
    words = (FILES | FOLDERS | OTHERS)[verb].split()
    things = sorted(path.name for path in place.iterdir())
    for at in range(len(verb.split()), len(words)):
        if (place / words[at]).exists():
            kin = {"evaluation", "run"} if {words[at]} <= {"evaluation", "run"} else {words[at]}  # some verbs take both
            wrong = ["nowhere", "/dev/zero", *things, *(damaged(place / words[at], folder / f"{at}-{k}", draw) for k in range(3))]
            yield from (([*words[:at], str(path), *words[at + 1 :]], isinstance(path, Path) or path in kin) for path in wrong)
        elif "OUT" in words[at]:
            for path in ("answers.csv/x" + words[at][3:], "trials", "/dev/full"):
                yield [*words[:at], path, *words[at + 1 :]], False
    hints = typing.get_type_hints(command_of(verb).callback)
    for part in command_of(verb).params:
        kinds = {hints[part.name], *typing.get_args(hints[part.name])} if part.name in hints else set()
        if part.param_type_name == "option" and bool not in kinds and not kinds & {Path}:
            for value in ("-1", "0", str(10**23), "nan", ""):
                passes = not kinds & {int, float} or value == "0" or value == "-1" and part.name == "offset"
                yield [*words, f"{part.opts[0]}={value}"], passes


BAR = re.compile(r"%\||\d\w* \[\d\d:\d\d, ")


@pytest.mark.parametrize("most", [1, pytest.param(1000, marks=pytest.mark.slow)])
def test_nonsense_ends_in_one_line(place, tmp_path, capsys, monkeypatch, most):
    os.mkfifo(place / "pipe")
    (place / "empty").touch()
    before = content_hash(place)
    faults = []
    for verb in turn(FILES | FOLDERS | OTHERS, 1 if most > 1 else 4):  # by day one call, of every fourth verb
        draw = random.Random(verb)
        calls = list(nonsense(verb, place, tmp_path / verb, draw))
        for words, passes in draw.sample(calls, min(most, len(calls))):
            out = tmp_path / f"out{len(list(tmp_path.iterdir()))}/new"
            out.parent.mkdir()
            try:
                with limited(LONGEST):
                    code, err = call(capsys, monkeypatch, place, words, out)
            except Exception as fault:
                code, err = 1, f"{type(fault).__name__}: {fault}"
            lines = [line for line in err.replace("\r", "\n").split("\n") if line and not BAR.search(line)]
            alone = all(line.startswith("aawm: ") for line in lines) and "without end" not in err
            if not (alone and code in (0, 2, 3, 4, 5, 7) and (code or passes)):
                faults.append(f"{' '.join(words)[:200]}: {code} {err[-300:]}")
    (place / "pipe").unlink()
    assert not faults, "\n".join(faults)
    assert content_hash(place) == before


def program(folder, *words, **environment) -> subprocess.CompletedProcess:
    "A call of the program in a process of its own, as `python -m` and as typed."
    return subprocess.run(
        [sys.executable, "-m", "aawm.cli", *words], cwd=folder, env=os.environ | environment, capture_output=True, text=True
    )


def test_nothing_of_the_current_folder_is_imported_but_what_was_typed(tmp_path):
    for name in ("numexpr", "bottleneck", "typer", "yaml"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'RAN')!r}, 'a').write('{name} '); raise ImportError")
    (tmp_path / "part.py").write_text("class Glide:\n    def rollout(self, states, context, horizon, **given):\n        return states")
    (tmp_path / "mine.py").write_text("import pandas\nfrom part import Glide\n")
    (tmp_path / "trials").mkdir()
    said = program(tmp_path, "import-raw", "trials", "--out", "store", "--no-progress")
    assert said.returncode in (2, 3) and said.stderr.count("\n") == 1, said.stderr
    own = program(tmp_path, "evaluate", "mine:Glide", "trials", "out")
    assert own.returncode == 3 and "trials" in own.stderr and not (tmp_path / "RAN").exists()  # read before any store
    kernel = "import sys, os; print(os.getcwd() in sys.path, '' in sys.path)"
    done = subprocess.run(
        [sys.executable, "-c", f"import os; os.environ['PYTHONSAFEPATH'] = '1'; import subprocess, sys; subprocess.run([sys.executable, '-c', {kernel!r}])"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("kind", ["zip in a repository", "variables", "own project"])
def test_a_commit_is_ours_or_the_version(tmp_path, kind):
    lines = {"own project": "[DEFAULT]\nlib_name = course\n"}.get(kind, (ROOT / "settings.ini").read_text())
    package = tmp_path / "course" / ("aawm-main" if kind == "zip in a repository" else "")
    away = {}
    (package / "aawm").mkdir(parents=True)
    for name in ("__init__.py", "__init__.pyi", "errors.py", "files.py"):
        if (ROOT / "aawm" / name).exists():
            (package / "aawm" / name).write_text((ROOT / "aawm" / name).read_text())
    (package / "settings.ini").write_text(lines)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path / "course")]
    for words in (["init", "-q"], ["add", "." if kind == "own project" else "-N", "."], ["commit", "-q", "--allow-empty", "-m", "course"]):
        subprocess.run([*git, *words], check=True)
    if kind == "variables":
        package = package.rename(tmp_path / "here")
        (package / ".git").rename(tmp_path / "hidden")
        away = {"GIT_DIR": str(tmp_path / "hidden"), "GIT_CEILING_DIRECTORIES": "/"}
    said = subprocess.run(
        [sys.executable, "-c", "from aawm.files import commit; print(commit())"], cwd=package,
        env=os.environ | {"PYTHONPATH": str(package)} | away,
        capture_output=True, text=True
    )
    assert said.stdout.startswith("version "), said.stderr


@pytest.mark.parametrize("name", ["../../x", "a\nb", "a\u202eb", "x" * 300, "true_world", "SGNet", " ", "=1+1", 7])
def test_a_stranger_takes_no_name_of_ours(place, tmp_path, name):
    class World:
        variant, privileged = "", ()

        def rollout(self, states, context, horizon, **given):
            return states

    World.name, World.__module__ = name, "mine"
    with pytest.raises(BadData):
        as_model(World())
    with pytest.raises(BadData):
        infant.score_answers(place / "answers.csv", place / "asked", {"true_world": "Bayesian", "SGNet": "OBJECT_transformer"}.get(name, name))


@pytest.mark.parametrize("change", [
    "seed=-1", "seed=100000000000000000000000", "models=", "models=oracle,oracle", "trials=99999999999999999999", "trials=-1",
    "trials=0", "models=../../x", "training_seeds=0,0", "cap=1e999"
])  # fmt: skip
def test_a_plan_of_nonsense_is_refused_before_anything_runs(change):
    with pytest.raises(UsageError):
        profile_values("smoke", cli.named_values([change]))


def test_numbers_and_addresses_have_bounds(capsys):
    for value in (-1, 2**63, 10**23, True, 1.0):
        with pytest.raises(UsageError):
            whole_number(value, "seed", 0)
    for address in ("tcp://", "tcp://host", "tcp://:1", "host", ":", "tcp://host:1 2"):
        with pytest.raises(UsageError):
            check_scheduler(address)
    for address in ("", "slurm", "tcp://host:8786", "mine.yaml"):
        check_scheduler(address)
    for words in (["evaluate", "sgnet", "x", "y", "--seed", str(10**23)], ["generate", "x", "--seed", str(2**64)]):
        assert cli.run_words(words)[0] == 2


def test_changed_code_of_an_outside_manifest_makes_its_jobs_anew(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("a = 1")
    before = code_part_digest(str(tmp_path / "mine.py"), None)
    (tmp_path / "mine.py").write_text("a = 2")
    assert code_part_digest(str(tmp_path / "mine.py"), None) != before
    assert len(code_part_digest("json.decoder", None)) == len(code_part_digest("sim", None)) == 64
    (tmp_path / "own_package").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    digests = set()
    for kind, file in itertools.product((1, 2), ("__init__", "part", "helper")):
        (tmp_path / f"own_package/{file}.py").write_text("from own_package import helper\n" * (file == "part") + f"a = {kind}")
        if kind == 2 or file == "helper":
            read_module.cache_clear()
            digests.add((code_part_digest("own_package", None), code_part_digest("own_package.part", None)))
    assert len({whole for whole, _ in digests}) == 4 and len({part for _, part in digests}) == 3  # `part` imports no code of the package's `__init__`
    for word in ("nowhere", "nowhere.py"):
        with pytest.raises(BadData, match="as code"):
            code_part_digest(word, None)
    (tmp_path / "paper.yaml").write_text("profiles: {quick: {a: 1}}\njobs: {figure: {notebook: a.ipynb, parameters: {}, code: [], outputs: []}}\n")
    assert list(figure_choices(str(tmp_path / "paper.yaml"))) == ["figure"]
    (tmp_path / "paper.yaml").write_text("profiles: {quick: {a: 1}}\njobs: {figure: {notebook: a.ipynb, code: [], outputs: []}}\n")
    with pytest.raises(BadData, match="parameters"):
        figure_choices(str(tmp_path / "paper.yaml"))


def test_a_plan_writes_nothing_where_it_is_asked_for(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    digests = set()
    for caches in (tmp_path / "caches", tmp_path / "caches", Path("/dev/null")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(caches))
        read_module.cache_clear()
        digests.add(code_part_digest("schema", None))
    assert len(digests) == 1 and not list((tmp_path / "here").iterdir()) and list((tmp_path / "caches/aawm").glob("*.json"))


def test_a_link_or_a_register_in_a_folder_leads_nowhere_else(tmp_path):
    (tmp_path / "own").write_text("somebody's work")
    for noted in ("{}", '{"x.csv": 5}', '{"x.csv": null}', '{"x.csv": {"a": 1}}', "[1]", "{"):
        for name in ("x.csv", f".part-{REGISTER}", ".part-x.csv"):
            (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / REGISTER).write_text(noted)
        (tmp_path / "x.csv").write_text("somebody's work")
        with pytest.raises(UsageError, match="--replace"):
            claim(tmp_path / "x.csv")
        for name in (f".part-{REGISTER}", ".part-x.csv"):
            (tmp_path / name).symlink_to(tmp_path / "own")
        claim(tmp_path / "x.csv", replace=True)
        write_text(tmp_path / "x.csv", "new")
        claim(tmp_path / "x.csv")
        assert (tmp_path / "x.csv").read_text() == "new" and (tmp_path / "own").read_text() == "somebody's work"


def test_a_place_that_no_shell_has_filled_in_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in ("~/x.csv", "~nobody/x.csv", "~"):
        with pytest.raises(UsageError, match="~"):
            claim(place)
    assert resolve("~nobody/x").name == "x" and not list(tmp_path.iterdir())


def test_notebooks_of_a_download_stand_for_none_of_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("nbs/paper/paper.yaml", "nbs/mine.ipynb", "settings.ini"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("[DEFAULT]\nlib_name = course\n")
    assert resolve("nbs/paper/paper.yaml") == ROOT / "nbs/paper/paper.yaml" and resolve("nbs/mine.ipynb") == tmp_path / "nbs/mine.ipynb"
    (tmp_path / "settings.ini").write_text("[DEFAULT]\nlib_name = aawm\n")
    assert resolve("nbs/paper/paper.yaml") == tmp_path / "nbs/paper/paper.yaml"


def test_whatever_a_file_raises_and_is_called_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raises_base.py").write_text("raise BaseException('all')")
    with pytest.raises(AawmError, match="all"):
        named_in_code("raises_base:A", "model")
    code, words = cli.run_words(["verify", "a" * 300 + "\u202e\n"])
    assert code and words.isprintable() and len(words) < 300


def test_a_list_is_no_surprise(place):
    table = pd.read_csv(place / "answers.csv").astype(object)
    table.at[1, "surprise"] = [1, 2]
    with pytest.raises(BadData, match="row 2"):
        infant.score_answers(table, place / "asked")


def test_a_reader_who_has_seen_enough_is_no_fault():
    shown = subprocess.run(f"{sys.executable} -m aawm.cli list tasks | head -1; echo ${{PIPESTATUS[0]}}", shell=True, executable="/bin/bash", capture_output=True, text=True)
    assert shown.stdout.split()[-1] == "0" and not shown.stderr


def test_trials_that_a_model_was_trained_on_are_counted(place, tmp_path, capsys):
    trials = open_trials(place / "trials")
    first = np.flatnonzero(trials["split"].values == "train")[0]
    raws = [simulate("random_random", seed, fidelity="planar") for seed in (int(trials.seed[first]), 7, 8)]
    store_trials(tmp_path / "others", raws)  # another store, another data hash: one trial is in both

    def trained(model, store=place / "trials", split=None):
        result = evaluate(model, store, Protocol(["move"], split=split), progress=False)
        save(result, tmp_path / "evaluation")
        return read_evaluation(tmp_path / "evaluation").record["trained_on"], trained_words(result.record)

    every = int((trials["split"].values == "train").sum())
    assert trained(place / "run")[0] == every < len(trials.trial) == 4
    assert trained(place / "run", split="train")[1].startswith(f"{every} of {every} were trained on; ")
    assert trained(place / "run", split="validation")[1] == ""
    assert trained(place / "run", tmp_path / "others")[1].startswith("1 of 3 were trained on; ")
    # whichever way the weights are saved, and whatever starts from them
    shipped = ship_weights(load_run(place / "run"), tmp_path / "weights.safetensors")
    assert trained(shipped)[0] == every and "trained_on" not in shipped.with_suffix(".json").read_text()
    quick = {"model_settings": SMALL, "training_settings": QUICK, "progress": False}
    store_trials(tmp_path / "new", [simulate("random_random", seed, fidelity="planar") for seed in range(20, 24)])
    fit("multistep_predictor", tmp_path / "new", tmp_path / "tuned", start=shipped, **quick)
    assert trained(tmp_path / "tuned")[0] == every
    # older runs and weights have no list
    shutil.copytree(place / "run", tmp_path / "older")
    weights = tmp_path / "older/weights.safetensors"
    write_tensors(weights, read_tensors(weights), run_settings(weights.parent))
    assert trained(tmp_path / "older") == (None, "trained on unknown trials")
    fit("multistep_predictor", tmp_path / "new", tmp_path / "more", start=tmp_path / "older", **quick)
    assert trained(tmp_path / "more")[0] is None and trained(tmp_path / "more", tmp_path / "new", "train")[0] > 0
    assert cli.run_words(["compare", str(place / "run"), "frozen_world", "--trials", str(place / "trials")])[0] == 0
    assert f"run: {every} of 4 were trained on" in capsys.readouterr().out
