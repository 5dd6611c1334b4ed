"Is one model better than another? Paired over trials, with the spread of training seeds, from folders that a user has."

import numpy as np
import pandas as pd
import pytest

from aawm import cli
from aawm.errors import UsageError
from aawm.evaluation import Protocol, compared, difference, evaluate, save, verdict


def test_a_difference_is_paired_over_trials_and_names_what_it_lacks():
    rng = np.random.default_rng(1)
    hard = rng.random(150)
    parts = [
        pd.DataFrame({
            "model": name, "variant": "corrected", "seed": seed, "task": "pickup", "target": "object",
            "trial": np.arange(150), "truth": hard < 0.7, "prediction": hard < level
        })
        for name, seed, level in (("mine", 0, 0.5), ("sgnet", 0, 0.45), ("sgnet", 1, 0.4))
    ]  # fmt: skip
    outcomes = pd.concat(parts, ignore_index=True)
    table = difference(outcomes, "mine", "sgnet@0").set_index("metric")
    found = table.loc["recall"]
    assert np.isclose(found.difference, found["mine"] - found["sgnet@0"]) and found.trials == (hard < 0.7).sum()
    assert 0 < found.low < found.difference < found.high < 0.2
    turned = difference(outcomes, "sgnet@0", "mine").set_index("metric").loc["recall"]
    assert turned.difference == -found.difference and abs(turned.high + found.low) < 0.02
    pooled = difference(outcomes, "mine", "sgnet").set_index("metric").loc["recall", "sgnet"]
    assert np.isclose(pooled, np.mean([difference(outcomes, "mine", f"sgnet@{k}").set_index("metric").loc["recall", f"sgnet@{k}"] for k in (0, 1)]))
    for one, other, words in (
        ("mine", "mine", "itself"), ("mine", "sgent", "did you mean 'sgnet'"), ("mine", "sgnet@7", "of seeds"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            difference(outcomes, one, other)
    with pytest.raises(UsageError, match="in common"):
        difference(outcomes.assign(trial=outcomes.trial + 1000 * (outcomes.model == "mine")), "mine", "sgnet")
    with pytest.raises(UsageError, match="variant corrected and published"):
        difference(pd.concat([outcomes, outcomes.assign(variant="published")]), "mine", "sgnet")


def trained(random, seeds, level=0.5, spread=0.05, trials=1000, questions=4):
    "Outcomes of one model: a hard trial is hard for every seed, and every seed has a level of its own."
    hard = np.random.default_rng(7).random((questions, trials))
    parts = []
    for seed in range(seeds):
        levels = level + spread * random.normal(size=questions)
        for k in range(questions):
            for truth in (True, False):
                right = hard[k] < levels[k] if truth else hard[k] < 0.2 + 0.3 * levels[k]
                noise = random.random(trials) < 0.1
                parts.append(pd.DataFrame({
                    "seed": seed, "task": f"task_{k}", "target": "object", "trial": np.arange(trials), "truth": truth,
                    "prediction": right ^ noise
                }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


@pytest.mark.slow
def test_two_seeds_sets_of_one_model_are_not_called_better():
    "Twenty pairs without a difference, each of eight questions: at most one is called better or worse."
    random = np.random.default_rng(11)
    called = 0
    for _ in range(20):
        table = pd.concat([trained(random, 3).assign(model=name) for name in ("one", "other")])
        called += "on 0 of 8 questions and worse on 0" not in verdict(difference(table, "one", "other"))
    assert called <= 1
    better = pd.concat([trained(random, 3, level).assign(model=name) for name, level in (("one", 0.9), ("other", 0.4))])
    assert "is better than other on 4 of 8 questions and worse on 4" in verdict(difference(better, "one", "other")), "false ones rise, too"


def test_one_seed_each_says_nothing_of_the_models():
    table = pd.concat([trained(np.random.default_rng(k), 1).assign(model=name) for k, name in enumerate(("one", "other"))])
    words = verdict(difference(table, "one", "other"))
    assert "not yet said of the models" in words and "trials alone" in words
    assert "times as many trials would tell half of the other" in words


@pytest.fixture(scope="module")
def place(tmp_path_factory, arena_store):
    folder = tmp_path_factory.mktemp("compare")
    (folder / "trials").symlink_to(arena_store)
    tasks = Protocol(tasks=["single_goal", "move", "error_by_step"], split=None)
    for name, model in (("first", "frozen_world"), ("longer", "constant_velocity"), ("seeds/a", "nearest_carries"), ("seeds/b", "faced")):
        save(evaluate(model, arena_store, tasks, progress=False), folder / name)
    return folder


def test_runs_are_compared_by_the_names_of_their_folders(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    code, _ = cli.run_words(["compare", "first", "seeds/*", "longer"])
    said = capsys.readouterr().out
    assert not code and "first" in said and "seeds/*" in said and said.count("Holm") == 2 and "ade" in said and "fde" in said
    outcomes, _ = compared(["first", "seeds/*"])
    assert outcomes.groupby("model").seed.nunique().to_dict() == {"first": 1, "seeds/*": 2}
    outcomes, _ = compared([str(place / name) for name in ("first", "seeds/a")])
    assert set(outcomes.model) == {"first", "seeds/a"}, "without the folders that all share"


def test_what_is_not_evaluated_is_evaluated_where_trials_are_given(place, monkeypatch):
    monkeypatch.chdir(place)
    with pytest.raises(UsageError, match="give the trials"):
        compared(["first", "frozen_world"])
    outcomes, curves = compared(["first", "frozen_world"], trials="trials", progress=False)
    assert len(difference(outcomes, "first", "frozen_world", curves=curves[:0])), "tasks without errors by step are compared"
    both = [outcomes[outcomes.model == name].query("task == 'move'").prediction.to_numpy() for name in ("first", "frozen_world")]
    assert np.array_equal(*both)


def test_one_trial_decides_nothing(monkeypatch, capsys):
    outcomes = pd.DataFrame({"model": ["one", "other"], "seed": 0, "task": "move", "target": "object", "trial": 0, "truth": True, "prediction": [True, False]})
    outcomes.attrs["trained_on"] = {}
    monkeypatch.setattr("aawm.evaluation.compared", lambda *_: (outcomes, None))
    assert cli.run_words(["compare", "one", "other", "--metrics", "recall"])[0] == 0
    told = capsys.readouterr().out
    assert "better than other on 0 of 0 questions" in told and told.count("NaN") == 3


@pytest.mark.parametrize("names, words", [
    (["first"], "two or more"), (["first", "first"], "two or more different"), (["first", "nowhere"], "holds no evaluation"),
    (["first", "nothing-*"], "holds no evaluation"),
])  # fmt: skip
def test_what_cannot_be_compared_is_said(place, monkeypatch, names, words):
    monkeypatch.chdir(place)
    with pytest.raises(UsageError, match=words):
        compared(names)


def test_other_trials_are_not_compared(place, other_store, monkeypatch):
    monkeypatch.chdir(place)
    save(evaluate("frozen_world", other_store, Protocol(tasks=["move"], split=None), progress=False), place / "elsewhere")
    with pytest.raises(UsageError, match="different trials"):
        compared(["first", "elsewhere"])
