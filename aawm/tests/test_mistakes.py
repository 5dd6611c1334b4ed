"""Mistakes on the command line and in papermill: each ends in one line and a non-zero exit code.

The line says how to go on."""

from importlib.metadata import version

import numpy as np
import pytest
import xarray as xr

from aawm.data import store_trials
from aawm.errors import UsageError
from aawm.runs import run_notebook
from aawm.runs.notebooks import hand_parameters, notebook_parameters, scored_trials
from aawm.sim import simulate
from aawm.tests.conftest import ROOT, leave

BAD = """from aawm.models import WorldModel


class NoModel:
    pass


class Shape(WorldModel):
    def loss(self, batch):
        return batch["states"].mean(), {}

    def imagine(self, states, lengths, horizon, **more):
        return states @ states
"""

TYPER = tuple(map(int, version("typer").split(".")[:2]))
AT_LEAST = "greater than or equal to " if TYPER >= (0, 29) else "not in the range x>="  # as it words what is too small


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    "A folder with a store of two trials, one with a damaged byte, and files that are not what a command wants."
    folder = tmp_path_factory.mktemp("mistakes")
    raws = [simulate("random_random", seed, fidelity="planar") for seed in range(2)]
    for name in ("trials", "damaged"):
        store_trials(folder / name, raws)
    chunk = next(
        path
        for path in sorted((folder / "damaged").rglob("*"))
        if path.is_file() and path.stat().st_size > 5000
    )
    content = bytearray(chunk.read_bytes())
    content[3000] ^= 1
    chunk.write_bytes(content)
    (folder / "file").write_text("no folder")
    (folder / "empty").mkdir()
    (folder / "run").mkdir()
    (folder / "run/settings.json").write_text("{}")
    (folder / "bad.py").write_text(BAD)
    (folder / "broken.py").write_text("this is = no Python\n")
    np.save(folder / "numbers.npy", np.zeros(3))
    return folder


MISTAKES = [  # the words after `aawm`, what the line says
    ("trian oracle trials run", "Did you mean 'train'"),
    ("generate", "Missing argument"),
    ("generate new --trials 3 --fidelity best", "unknown fidelity"),
    ("generate new --trials 2 --scheduler tcp://127.0.0.1:1", "no dask scheduler answers"),
    ("verify damaged", "damaged"),
    ("import-raw empty --out new --no-progress", "empty"),
    ("train orcale trials run", "did you mean 'oracle'"),
    ("train oracle trials run --preset lapto", "did you mean 'laptop'"),
    ("train oracle trials run --steps 0", "at least 1"),
    ("train oracle trials run --learning-rate -1", "negative"),
    ("train oracle trials run --set hidden_size=wide", "expected int"),
    ("train oracle trials run --set hidden_size", "name=value"),
    ("train broken.py:Shape trials run", "broken.py, line 1"),
    ("train oracle trials damaged --preset smoke --device cpu", "damaged"),
    ("check-model nowhere.py:Shape", "no file"),
    ("check-model bad.py:NoModel", "has no method `rollout`"),
    ("check-model bad.py:Shape", "mend these"),
    ("check-model rssm_discrete --variant corect", "unknown variant of rssm_discrete 'corect'; did you mean 'corrected'? (known: corrected, published)"),
    ("evaluate empty trials new", "settings.json"),
    ("evaluate frozenworld trials new", "frozenworld is not there; did you mean 'frozen_world'?; give a run folder, a weights file, module:Class, or one of frozen_world, "),
    ("evaluate sgnet@ trials new", "after @ comes the seed"),
    ("evaluate sgnet@9 trials new", "there are sgnet-corrected-0"),
    ("evaluate bad.py trials new", "as in bad.py:MyModel"),
    ("compare nowhere sgnet", "nowhere holds no evaluation; evaluate it first, or give the trials"),
    ("play trials --trial 7", "0 to 1"),
    ("play trials --save film.mp4", ".gif"),
    ("play trials --context 300 --no-open", "1 to 299"),
    ("play trials --no-open --save page.txt", ".html"),
    ("view trials", "a page has one or two evaluations"),
    ("reproduce --profile smok", "did you mean 'smoke'"),
    ("reproduce --profile smoke --set trails=9", "did you mean 'trials'"),
    ("reproduce --profile smoke --set models=orcale", "did you mean 'oracle'"),
    ("reproduce --profile smoke --set device=tpu --plan", "unknown device 'tpu'"),
    ("reproduce --profile smoke --scheduler slrum --plan", "did you mean 'slurm'"),
    ("list model", "did you mean 'models'"),
    ("figure fig33", "did you mean 'fig3'"),
    ("figure fig3 -p scorng=published", "did you mean 'scoring'"),
    ("figure fig3 -p trials=data/nowhere", "data/nowhere, which is not there"),
    ("requests trials --out new.npz --task move@9", "move@9"),
    ("generate new --seed -1", f"{AT_LEAST}0"),
    ("requests trials --out new.json", "end in .npz"),
    ("verify run", "is the folder of a training run"),
    ("lessons --out file", "choose another folder"),
    ("lessons --data maybe", "unexpected extra argument"),
]
HERE = {"reproduce", "lessons", "list", "figure"}  # verbs that look for the repository they are called in


@pytest.mark.parametrize("words, said", MISTAKES, ids=[words for words, _ in MISTAKES])
def test_a_mistake_is_one_line_and_not_zero(words, said, place, capsys, monkeypatch):
    verb, *others = words.split()
    monkeypatch.chdir(ROOT if verb in HERE else place)
    others = [str(place / word) if verb in HERE and word == "file" else word for word in others]
    before = sorted(path.relative_to(place) for path in place.rglob("*") if "__pycache__" not in path.parts)
    code = leave(verb, *others)
    err = capsys.readouterr().err
    assert code in (2, 3, 4, 5), (code, err)
    assert said in err and err.startswith("aawm: ") and err.count("\n") == 1 and "Traceback" not in err, err
    left = sorted(path.relative_to(place) for path in place.rglob("*") if "__pycache__" not in path.parts)
    assert left == before, "nothing is written"


PARAMETERS = "profile: str = 'smoke'\nevaluations: str = 'data/smoke/evaluations'\nscoring: str = 'strict'\nseed: int = 0\npublished: bool = True"


@pytest.mark.parametrize("line, said", [("scorng = 'published'", "did you mean 'scoring'"), ("seed = 'one'", "must be int"),
                                        ("seed = 0.5", "must be int"), ("published = 'perhaps'", "must be bool")])  # fmt: skip
def test_a_notebook_run_by_hand_refuses(line, said):
    with pytest.raises(UsageError, match=said) as fault:
        hand_parameters([PARAMETERS, f"# Parameters\n{line}\n"])
    assert "\n" not in str(fault.value) and "Traceback" not in fault.value._render_traceback_()[0]


def test_every_figure_checks_its_parameters_by_hand_too():
    for folder in ("paper", "pipeline"):
        for page in sorted((ROOT / "nbs" / folder).glob("*.ipynb")):
            assert "check_hand_run()" in page.read_text(encoding="utf-8"), page.name


def test_rollouts_are_laid_beside_the_trials_that_they_are_of():
    "Rows alone would pair a rollout of a test trial with a training trial."
    trials = xr.Dataset(attrs={"data_hash": "a" * 64})
    with pytest.raises(UsageError, match="of other trials"):
        scored_trials(trials, {"data_hash": "b" * 64, "split": "all"})
    for page in sorted((ROOT / "nbs/paper").glob("*.ipynb")):
        # "": those of the evaluations
        assert notebook_parameters(page)["trials"] in ("data/smoke/test", "data/smoke/visits-test", ""), page.name
        source = page.read_text(encoding="utf-8")
        assert ".kept" not in source or "scored_trials(" in source and "trial_set(" not in source, page.name


def test_reproduce_refuses_before_a_kernel_starts(tmp_path):
    for parameters, said in (({"scorng": "published"}, "did you mean 'scoring'"), ({"seed": "one"}, "must be int")):
        with pytest.raises(UsageError, match=said):
            run_notebook("nbs/paper/fig3.ipynb", tmp_path / "out.ipynb", parameters)
    assert not list(tmp_path.iterdir())
