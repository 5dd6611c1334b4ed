"""`pip install aawm` alone: files of answers are requested, scored and compared without what simulates, trains or draws."""

import re
import subprocess
import sys
from configparser import ConfigParser

from aawm.tests.conftest import ROOT

# torch.py and others are not there: what `aawm[all]` adds to the core cannot be imported
ALONE = """
import json, re, sys
from importlib.metadata import packages_distributions
import numpy as np

added = set(sys.argv[1].split())
for module, owners in packages_distributions().items():
    if added & {re.sub("[-_.]+", "-", owner.lower()) for owner in owners}:
        sys.modules[module] = None
from aawm import cli

def run(*words):
    code, said = cli.run_words([*words])
    assert code == 0, said

run("requests", "trials", "--out", "requests.npz", "--task", "single_goal")
shown = np.load("requests-0.npz")
digest = json.loads(str(shown["about"]))["digest"]
last = shown["states"][np.arange(len(shown["context"])), shown["context"] - 1]
for name, push in (("still", 0), ("north", 1)):
    steps = np.repeat(last[:, None] + np.float32(push), shown["horizon"].max(), axis=1)
    np.savez(f"{name}.npz", rollouts=steps, request=np.arange(len(last)), about=json.dumps({"digest": digest, "model": name}))
    run("score", f"{name}.npz", "--requests", "requests.npz", "--store", "trials", "--out", name)
run("compare", "still", "north")
import aawm.infant.outside, aawm.marple.scores, aawm.study.score
print(cli.run_words(["list", "models"]))
"""


def test_files_are_scored_without_the_rest(arena_store, tmp_path):
    (tmp_path / "trials").symlink_to(arena_store)
    settings = ConfigParser(delimiters=["="])
    settings.read(ROOT / "settings.ini", encoding="utf-8")
    added = re.findall(r"(?:^| )([\w-]+)", settings["DEFAULT"]["all_requirements"])
    assert "torch" in added and "zarr" not in added
    words = [sys.executable, "-c", ALONE, " ".join(added)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "better than" in done.stdout and "(5, " in done.stdout and "pip install 'aawm[all]'" in done.stdout
