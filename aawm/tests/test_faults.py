"""Kinds of faults, each held by one rule: nothing is written over, and a call runs only what was typed."""

import click
import pandas as pd
import pytest
import typer

from aawm import cli, infant
from aawm.data import store_trials
from aawm.evaluation import Protocol, evaluate, save
from aawm.files import REGISTER, content_hash
from aawm.marple.pairs import generate_pairs
from aawm.sim import simulate
from aawm.tests.conftest import ROOT
from aawm.training import fit

CLASS = ROOT / "nbs/study/assets/class/goals"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    "Small stores of the three worlds, an evaluation, a run, and answers to requests."
    folder = tmp_path_factory.mktemp("faults")
    store_trials(folder / "trials", [simulate("random_random", seed, fidelity="planar") for seed in range(4)])
    save(evaluate("frozen_world", folder / "trials", Protocol(["move"], split=None), progress=False), folder / "evaluation")
    quick = dict(steps=2, batch=4, checkpoint_every=2, validate_every=2, log_every=2, validation_windows=4)
    small = dict(recurrent_layers=1, recurrent_size=8, hidden_size=8)
    fit("multistep_predictor", folder / "trials", folder / "run", model_settings=small, training_settings=quick, progress=False)
    infant.generate(folder / "videos", "efficiency_path", 1, progress=False)
    generate_pairs(folder / "pairs", pairs=1, houses=1, progress=False)
    infant.write_requests(folder / "videos", folder / "asked", size=8, progress=False)
    files = [f"{number:05d}.npz" for number in range(len(list((folder / "asked/files").glob("*.npz"))))]
    pd.DataFrame({"file": files, "surprise": range(len(files))}).to_csv(folder / "answers.csv", index=False)
    return folder


# verb -> words with the file it writes; what a full call takes is seconds
FILES = {
    "verify": "verify trials --card OUT.md", "outcomes": "outcomes evaluation OUT.csv",
    "play": "play trials --trial 0 --no-open --out OUT.ipynb", "play --save": "play trials --trial 0 --save OUT.html",
    "infant evaluate": "infant evaluate bayesian videos --out OUT.csv --no-progress",
    "infant score": "infant score answers.csv --requests asked --out OUT.csv",
    "infant play": "infant play videos --save OUT.gif", "marple verify": "marple verify pairs --card OUT.md",
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
    "infant requests": "infant requests videos --out OUT", "marple import": "marple import raw --out OUT",
    "marple import-released": "marple import-released raw --out OUT", "marple generate": "marple generate OUT --pairs 1",
    "marple train": "marple train OUT --pairs 1 --preset smoke", "study build": "study build --out OUT --trials 2",
    "study score": f"study score {CLASS} {CLASS}/answers.csv --out OUT"
}
ELSEWHERE = {"choose-threshold": "writes into its run", "reproduce": "names its folders itself", "compare": "reads"}


def call(capsys, monkeypatch, place, words, out) -> tuple[int, str]:
    "The exit code and the error stream of a call in the folder of the stores."
    monkeypatch.chdir(place)
    with pytest.raises(SystemExit) as end:
        cli.main([word.replace("OUT", str(out)) for word in words.split()])
    return end.value.code or 0, capsys.readouterr().err


def test_every_verb_that_writes_is_tried():
    verbs = []

    def walk(command: click.Command, path: str) -> None:
        for name, one in getattr(command, "commands", {}).items():
            walk(one, f"{path} {name}".strip())
        writes = [
            part for part in command.params
            if part.name in ("out", "output", "card", "save") or "write" in str(getattr(part, "help", "")) and part.name != "seed"
        ]
        if path and writes:
            verbs.append(path)

    walk(typer.main.get_command(cli.app), "")
    assert not set(verbs) - {*FILES, *FOLDERS, *ELSEWHERE}


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
    assert call(capsys, monkeypatch, place, words, stem)[0] == 0  # a link is followed, so this is ours again
    assert {path.name for path in tmp_path.iterdir()} == {REGISTER, out.name, f"link{suffix}"}


@pytest.mark.parametrize("verb", [*FILES, *FOLDERS])
def test_nothing_is_written_inside_what_belongs_together(place, capsys, monkeypatch, verb):
    (place / "raw").mkdir(exist_ok=True)
    inside = ("trials", "evaluation", "run", "videos", "pairs")[[*FILES, *FOLDERS].index(verb) % 5]
    before = content_hash(place / inside)
    code, err = call(capsys, monkeypatch, place, (FILES | FOLDERS)[verb], place / inside / "sub/x")
    assert code and err.splitlines()[-1].startswith("aawm: ") and content_hash(place / inside) == before
    assert "belong together" in err or verb.endswith(("import", "import-released")), err  # these look first at what they read
