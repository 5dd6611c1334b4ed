"""Policies and rollouts: trained, stopped and resumed; what is heard and told counts."""

import dataclasses
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from aawm import cli, marple
from aawm.errors import AawmError, BadData, Interrupted, UsageError
from aawm.files import read_json, resolve, sha256, write_json
from aawm.marple import policies, rollouts
from aawm.marple.pairs import Plan
from aawm.models.weights import SETTINGS, WEIGHTS


@pytest.fixture(scope="module")
def scenes():
    torch.set_num_threads(1)
    plan = Plan(6, "in", houses=2, scenarios=("shower", "laundry"))
    return policies.collect(run for k in range(12) for run in plan.pair(k).runs)


def weights(policy):
    return torch.cat([values.flatten() for values in policy.state_dict().values()])


def test_a_policy_stopped_in_training_ends_as_an_undisturbed_one(tmp_path, scenes, monkeypatch):
    whole = policies.train_policy(scenes, tmp_path / "whole", "smoke", progress=False)
    make = policies.training_batch

    def stopped(scenes, preset, seed, step):
        if step == 12:
            raise KeyboardInterrupt
        return make(scenes, preset, seed, step)

    monkeypatch.setattr(policies, "training_batch", stopped)
    with pytest.raises(Interrupted, match="step 10 of 20"):
        policies.train_policy(scenes, tmp_path / "again", "smoke", progress=False)
    monkeypatch.setattr(policies, "training_batch", make)
    again = policies.train_policy(scenes, tmp_path / "again", "smoke", progress=False)
    assert torch.equal(weights(whole), weights(again)) and not (tmp_path / "again/last.ckpt").exists()
    with pytest.raises(UsageError, match="data_hash"):
        policies.train_policy(
            dataclasses.replace(scenes, rows=scenes.rows[1:]), tmp_path / "again", "smoke", progress=False
        )
    (tmp_path / "again/weights.safetensors").write_bytes(b"x")
    with pytest.raises(BadData, match="weights"):
        policies.load_policy(tmp_path / "again")


def test_training_learns_and_language_helps_to_tell_apart(tmp_path, scenes):
    untrained = np.mean(list(policies.policy_accuracy(policies.FieldPolicy(8, 4), scenes).values()), 0)
    trained = policies.train_policy(scenes, tmp_path / "policy", "smoke", progress=False)
    learned = np.mean(list(policies.policy_accuracy(trained, scenes).values()), 0)
    assert learned[0] > untrained[0] + 0.2 and learned[1] <= learned[0]


def test_a_policy_is_given_preferences_and_no_mission(scenes):
    "At weight .8 whoever prefers showers feeds the dog in two of ten runs, so one vector serves both missions."
    preset = policies.PRESETS["smoke"]
    batches = [policies.training_batch(scenes, preset, 0, step) for step in range(300)]
    assert all("mission" not in batch for batch in batches)
    drawn = torch.cat([batch["mixture"] for batch in batches])
    missions = torch.cat(
        [
            scenes.mission[
                torch.from_numpy(np.random.default_rng((0, step)).choice(len(scenes), 8, replace=False))
            ]
            for step in range(300)
        ]
    )
    for weight in (1.0, 0.8, 0.6):
        theirs = drawn == policies.mixture_number("take_shower", weight)
        own = missions[theirs] == policies.ORDER.index("take_shower")
        others = missions[drawn == policies.mixture_number("feed_dog", weight)] == policies.ORDER.index(
            "take_shower"
        )
        # of shower scenes, how many belong to who prefers showers
        share = own.sum() / (own.sum() + others.sum())
        assert abs(float(share) - weight) < 0.1
    with pytest.raises(UsageError, match="no policy was trained on the mixture"):
        policies.mixture_number("take_shower", 0.7)


def test_monte_carlo_simulation_agrees_with_exact_inference():
    pair = Plan(4, scenarios=("shower",)).pair(1)
    pair_belief = ({"take_shower": 0.5, "feed_dog": 0.5},) * 2
    for prior, tau in ((1.0, 0), (1.0, 5), (pair_belief, 0)):  # nothing to infer
        found = marple.evaluate(
            rollouts.PlannerMethod(600), pair.house, pair.runs, tau, pair.scenario, prior, within=300
        )
        assert np.allclose(found, marple.exact(pair.house, pair.runs, tau, pair.scenario, prior), atol=0.08)
    told = marple.evaluate(
        rollouts.PlannerMethod(), pair.house, pair.runs, 0, pair.scenario, pair_belief, "V+L", within=60
    )
    assert told[pair.culprit] > 0.9 > 0.1 > told[1 - pair.culprit], "what is said weighs the missions"


@pytest.mark.parametrize("preset", ["field", "patch"])
def test_rollouts_of_both_networks_keep_the_contract(preset):
    policy = policies.FieldPolicy(8, 2) if preset == "field" else policies.PatchPolicy(16, 1, 2)
    pair = Plan(1, houses=1).pair(0)
    advisor = rollouts.Advisor(policy)
    for variant in ("V", "V+A+L"):
        evidence = marple.look(pair.runs[0], 3, variant)
        words = dict(agents=3, within=3, sound=evidence.sound, language=evidence.told)
        start = rollouts.world_at(evidence)
        rng = np.random.default_rng(0)
        mixture = policies.mixture_number(pair.runs[0].mission, 0.8)
        chances, objects = advisor.advise(start.take([0] * 3), mixture, evidence.told)
        assert chances.shape == (3, 12) and (chances >= 0).all() and np.allclose(chances.sum(1), 1)
        assert np.isfinite(objects([0, 1, 2])).all() and objects([0, 1, 2]).shape == (3, 106)
        found = rollouts.steps_to_query(advisor, start, mixture, pair.scenario.query, rng, **words)
        assert found.shape == (3,) and (found >= 0).all() and (found <= 3).all()
    if preset == "field":
        method = rollouts.RolloutMethod(policy, rollouts=1)
        assert marple.evaluate(
            method, pair.house, pair.runs, pair.horizon, pair.scenario, within=0
        )[pair.culprit] == 1.0


@pytest.mark.parametrize("depth, beyond", [("paper", 0), ("released", 5), (80, None)])
def test_rollouts_go_as_far_as_their_depth_says(depth, beyond):
    policy = policies.FieldPolicy(8, 2)
    pair = Plan(1, houses=1).pair(0)
    method, longer = (rollouts.RolloutMethod(policy, 20, depth=steps) for steps in (depth, 80))
    table = marple.score_pairs([pair], method)
    longest = {key[1]: steps for key, (steps, _) in method.seen.items()}
    assert longest and all(steps == (80 if beyond is None else pair.horizon + beyond - tau) for tau, steps in longest.items())
    marple.score_pairs([pair], longer)
    longer.depth = depth
    assert marple.score_pairs([pair], longer).equals(table), "short rollouts are the beginning of long ones"
    assert set(table.depth) == {str(depth)}
    with pytest.raises(UsageError, match="paper"):
        marple.rollout_steps("papr", 0, 10)


def test_a_rule_without_noise_is_as_early_as_exact_inference():
    pairs = [Plan(50).pair(scenario * 50 + number) for scenario in range(5) for number in range(10)]
    tables = [marple.score_pairs(pairs, method) for method in (marple.exact_method, marple.fewest_wasted_moves)]
    exactly, ruled = (float(marple.summary(table).loc["mean", "evidence needed"]) for table in tables)
    assert abs(ruled - exactly) < 0.05 and (tables[1][tables[1].part == 10].accuracy == 1).all()
    assert set(tables[1].p_a) <= {0, 0.5, 1}


@pytest.mark.parametrize("name", ["in-0", "ood-0"])
def test_shipped_policies_predict_most_actions(name):
    pairs = [Plan(500).pair(500 * scenario) for scenario in range(5)]
    shares = policies.policy_accuracy(
        policies.shipped_policy(name), policies.collect(run for pair in pairs for run in pair.runs)
    )
    assert np.mean(list(shares.values())) > 0.7 and len(shares) == 10
    with pytest.raises(UsageError, match="shipped policy"):
        policies.shipped_policy("in-77")


def test_the_papers_method_by_command(tmp_path):
    marple.generate_pairs(tmp_path / "runs", 1, houses=1, scenarios=("shower",), progress=False)
    for words in (("--policy", "shipped:ood-0", "--rollouts", "2"), ("--rollouts", "2", "--prior", ".8")):
        done = CliRunner().invoke(
            cli.app,
            [
                "marple", "infer", str(tmp_path / "runs"), "--no-progress", "--out", str(tmp_path / "a.csv"),
                "--method", "rollouts", *words
            ]
        )
        assert done.exit_code == 0, done.output
        table = pd.read_csv(tmp_path / "a.csv")
        assert set(table.rule) == {"softmax"} and table[table.part == 10].accuracy.min() > 0.5
    for words, text in ((("--prior", ".7"), "no policy was trained"), (("--policy", "nowhere"), "nowhere")):
        fault = CliRunner().invoke(
            cli.app,
            ["marple", "infer", str(tmp_path / "runs"), "--method", "rollouts", "--no-progress", *words]
        ).exception
        assert isinstance(fault, AawmError) and text in str(fault) and "\n" not in str(fault)


@pytest.mark.parametrize("config", [{"width": 10**8}, {"width": -1}, {"wide": 3}], ids=str)
def test_a_sealed_run_that_asks_for_too_much_or_for_nothing_known_is_not_built(tmp_path, config):
    folder = shutil.copytree(resolve("data/weights/marple/in-0"), tmp_path / "run")
    settings = read_json(folder / SETTINGS)
    write_json(folder / SETTINGS, settings | {"config": settings["config"] | config})
    (folder / "weights.sha256").write_text("".join(f"{sha256(folder / name)}  {name}\n" for name in (WEIGHTS, SETTINGS)))
    with pytest.raises(BadData, match="marple policy"):
        policies.load_policy(folder)
