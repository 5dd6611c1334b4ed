"""The dataset card says what is in the store, and the committed sample is what the simulator makes of its seeds."""

import json
import platform

import numpy as np
import pytest

from aawm.data import dataset_card, import_raw, open_trials
from aawm.data.authors.raw import OBSERVATIONS, read_event_log, read_observations
from aawm.schema import SCENARIOS
from aawm.sim import SIMULATOR_SETTINGS, simulate
from aawm.tests.conftest import ROOT, leave

SAMPLE = ROOT / "data/sample"


def test_the_card_counts_what_the_store_holds(arena_store, tmp_path, capsys):
    assert not leave("verify", arena_store, "--card", tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text()
    assert "card.md" in capsys.readouterr().out and card == dataset_card(arena_store)
    trials = open_trials(arena_store)
    for words in ("40 trials (32 train, 8 validation)", trials.attrs["data_hash"], "timestep = ", "Cross, L., Xiang, V."):
        assert words in card, words
    for name in set(trials.scenario.values):
        assert f"| {name} | {int((trials.scenario == name).sum())} |" in card


@pytest.fixture(scope="module")
def sample():
    return json.loads((SAMPLE / "sample.json").read_text())


def test_the_sample_has_a_trial_of_each_scenario_and_can_be_imported(sample, tmp_path):
    files = [file for file in SAMPLE.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 5e6 and len(files) == 1 + 9 * 2
    trials = open_trials(import_raw(SAMPLE, tmp_path / "nine", workers=1, progress=False))
    assert [trial["scenario"] for trial in sample["trials"]] == list(SCENARIOS)
    scenarios = {trial["folder"]: trial["scenario"] for trial in sample["trials"]}
    assert dict(zip(trials.name.values.tolist(), trials.scenario.values.tolist())) == scenarios
    assert trials.has_log.values.all()


def test_the_sample_is_what_the_simulator_makes(sample):
    same = sample["processor"] == platform.machine() and all(
        sample["versions"][name] == SIMULATOR_SETTINGS[f"{name}_version"] for name in sample["versions"]
    )
    for trial in sample["trials"]:
        made = simulate(trial["scenario"], trial["seed"], sample["fidelity"])
        states, kinds = read_observations(SAMPLE / trial["folder"] / OBSERVATIONS)
        assert tuple(kinds) == made.object_kinds and trial["folder"].split("_")[:2] == list(made.roles)
        # elsewhere the last digits differ, and in time they grow
        compared = slice(None) if same else slice(30)
        assert np.abs(states - made.states)[compared].max() < 1e-4, f"{trial}: run `make sample`"
        if same:
            events = read_event_log(SAMPLE / trial["folder"] / "event_log.csv")[1]
            assert events.astype(str).values.tolist() == made.events.astype(str).values.tolist()
