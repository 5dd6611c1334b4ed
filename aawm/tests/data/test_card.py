"""The dataset card says what is in the store, and the committed sample is what the simulator makes of its seeds."""

import json
import platform

import numpy as np
import pytest

from aawm import cli
from aawm.data import dataset_card, generate, import_raw, open_events, open_trials
from aawm.data.card import beside_published, pickup_to_goal, statistics
from aawm.data.authors.raw import OBSERVATIONS, read_event_log, read_observations
from aawm.schema import SCENARIOS
from aawm.sim import SIMULATOR_SETTINGS, simulate
from aawm.tests.conftest import ROOT

SAMPLE = ROOT / "data/sample"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return generate(
        tmp_path_factory.mktemp("card") / "trials", 27, seed=2, workers=1, fidelity="planar", progress=False
    )


def test_the_card_counts_what_the_store_holds(store, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["verify", str(store), "--card", str(tmp_path / "card.md")])
    card = (tmp_path / "card.md").read_text()
    assert not end.value.code and "card.md" in capsys.readouterr().out and card == dataset_card(store)
    trials = open_trials(store)
    for words in (
        "27 trials (22 train, 5 validation)", f"{len(open_events(store))} logged events",
        "--trials 27 --seed 2 --fidelity planar", trials.attrs["data_hash"], "fidelity = planar",
        "timestep = ", "## Known differences", "MIT", "Cross, L., Xiang, V."
    ):
        assert words in card, words
    for name in set(trials.scenario.values):
        assert f"| {name} | {int((trials.scenario == name).sum())} |" in card


def test_statistics_agree_with_plain_code(store):
    trials = open_trials(store)
    table = statistics(open_trials(store))
    moved = carried = 0
    steps = []
    for t in range(27):
        for k in range(3):
            place = trials.state[t, :, k, :3].values.astype(float)
            length = sum(abs(float(b - a)) for axis in place.T for a, b in zip(axis[:-1], axis[1:]))
            moved = moved + (length > 0.1)
            carried = carried + (length > 4)
            if "gathering_static" == trials.scenario[t] or "gathering_random" == trials.scenario[t]:
                if trials.goal_step[t, k] >= 0:
                    steps.append(int(trials.goal_step[t, k] - trials.pickup_step[t, k]))
    assert table["moved %"]["all"] == pytest.approx(
        100 * moved / 81
    ) and table["carried among moved %"]["all"] == pytest.approx(100 * carried / max(moved, 1))
    assert sorted(pickup_to_goal(trials)) == sorted(steps)
    assert beside_published(trials).here["objects moved (%)"] == pytest.approx(100 * moved / 81)


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
