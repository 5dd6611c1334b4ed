"""The wing's commands through the program itself; cards, verdicts and figures."""


import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from aawm import cli
from aawm import marple
from aawm.errors import AawmError, BadData, ModelContractError
from aawm.viz import claims_figure
from aawm.ledger import check_claims, verdict_word
from aawm.marple.evidence import VARIANTS
from aawm.marple.claims import (
    CLAIMS, EXACT, METHODS_OF, POLICIES, PUBLISHED_NEEDED, Scored, jackknife, ledger_by_method, policy_scores,
)
from aawm.marple.figures import CHECK, GIVEN, LOOKS, PERFECT, fig_evidence, fig_preferences
from aawm.marple.pairs import IMPORTED_HOUSES, Plan
from aawm.tests.conftest import FIXTURES, ROOT

DATA = FIXTURES / "marple"


def command(*words):
    done = CliRunner().invoke(cli.app, ["marple", *map(str, words)])
    if done.exception and not isinstance(done.exception, (AawmError, SystemExit)):
        raise done.exception
    return done


def command_fault(*words):
    raise command(*words).exception


def test_import_generate_infer(tmp_path):
    configurations = sorted(DATA.glob("*.json"))
    named = [word for path in configurations for word in ("--configurations", path)]
    made = command("generate", tmp_path / "houses", "--pairs", 2, "--seed", 3, *named, "--no-progress")
    assert made.exit_code == 0 and "6 pairs in 3 houses" in made.output
    scored = command(
        "infer", tmp_path / "houses", "--method", "exact", "--out", tmp_path / "scored.csv", "--no-progress"
    )
    assert scored.exit_code == 0 and len(pd.read_csv(tmp_path / "scored.csv")) == 6 * 11
    assert "whole" in command("verify", tmp_path / "houses").output
    assert "card.md" in command("verify", tmp_path / "houses", "--card", tmp_path / "card.md").output
    card = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert card == marple.dataset_card(tmp_path / "houses") and IMPORTED_HOUSES in card and "houses and runs are new" not in card
    with pytest.raises(BadData, match="--all-missions"):
        command_fault("infer", tmp_path / "houses", "--prior", "open")
    with pytest.raises(ModelContractError, match="TypeError"):
        command_fault("infer", tmp_path / "houses", "--method", "math:sqrt", "--no-progress")


def test_the_prior_open_runs_where_all_missions_can_be_done(tmp_path):
    command(
        "generate", tmp_path / "runs", "--pairs", 1, "--houses", 1, "--scenarios", "shower", "--all-missions",
        "--no-progress"
    )
    assert command("infer", tmp_path / "runs", "--prior", "open", "--no-progress").exit_code == 0


def test_one_house_a_scenario_decides_no_claim():
    def ledger(houses):
        table = marple.score_pairs([Plan(2, houses=houses).pair(k) for k in range(10)], marple.exact_method)
        accuracy = Scored(table).measure("accuracy at 0.3 T", lambda curves: curves[3].mean())
        return check_claims([CLAIMS[1], CLAIMS[5]], {("exact",): Scored(table)}, ("method",)), accuracy

    alone, known = ledger(1)
    assert alone.verdict.tolist() == ["undecided"] * 2 and alone.needs.tolist() == ["trials"] * 2
    assert np.isnan(known.ends()).all()
    low, high = ledger(2)[1].ends()
    assert low < high


def test_a_house_that_one_seed_lacks_leaves_an_interval():
    rng = np.random.default_rng(0)
    rows = [(name, house, 5, seed, rng.random()) for name in "ab" for house in range(3) for seed in range(2)]
    table = pd.DataFrame(rows, columns=["scenario", "house", "part", "training_seed", "accuracy"])
    number = jackknife("mean", table[1:], lambda curves: curves[5].mean())
    assert number.influence.notna().all() and len(number.influence) == 6


def test_the_ledger_calls_a_tie_a_tie():
    rows = [
        (name, f"{name} {house}", part, prior, value + 0.001 * house)
        for name in marple.SCENARIOS
        for house in range(4)
        for part in range(11)
        for prior, value in (
            ("1.0", 0.9), ("0.8", 0.9), ("0.6", 0.6 + 0.05 * part), ("0.5", 0.4 + 0.05 * part)
        )
    ]
    table = pd.DataFrame(rows, columns=["scenario", "house", "part", "prior", "accuracy"]).assign(
        variant="V", rule="exact", trial=0
    )
    ledger = ledger_by_method({EXACT: Scored(table)})
    figure, _ = claims_figure(ledger, {number: claim.brief for number, claim in CLAIMS.items()})
    place = ledger.claim.tolist().index(7)
    assert ledger.needs[place] == "" and "a tie" in [text.get_text() for text in figure.axes[0].texts]


def test_a_claim_is_judged_on_the_method_that_it_is_about():
    rows = [
        (
            name, f"{name} {house}", part, training, seed,
            0.5 + 0.04 * part + 0.001 * house + 0.002 * seed + (0.2 if training == "in" else 0)
        )
        for name in marple.SCENARIOS
        for house in range(4)
        for part in range(11)
        for training in ("in", "ood")
        for seed in range(3)
    ]
    table = pd.DataFrame(rows, columns=["scenario", "house", "part", "training", "training_seed", "accuracy"])
    table = pd.concat([table.assign(variant=variant) for variant in ("V", "V+A", "V+L", "V+A+L")]).assign(
        prior="1.0", rule="softmax", trial=0
    )
    policies = Scored(table, POLICIES)
    ledger = ledger_by_method({EXACT: Scored(None), POLICIES: policies})
    judged = ledger[ledger.judged].set_index("claim")
    assert set(judged.method) == {POLICIES} and set(
        judged.index
    ) == set(METHODS_OF) and judged.verdict[[1, 4, 6]].tolist() == ["holds", "holds", "fails"]
    beside = ledger[~ledger.judged]
    assert set(beside.method) == {EXACT} and 4 not in set(beside.claim) and set(
        beside.verdict
    ) == {"undecided"}, "no trials of exact inference"
    assert policies.needed("V").seeds == 3 and verdict_word(
        "undecided", judged.needs[7]
    ) == "undecided: needs trials at w < 1", "policies were scored, but not with weaker preferences"
    assert judged.needs[8] == "accuracies of actions"
    nothing = ledger_by_method({POLICIES: Scored(None, POLICIES)}).set_index("claim").needs
    assert set(nothing) == {"learned policies"}
    some = {("policies",): Scored(table[table.training == "in"], POLICIES)}
    assert check_claims([CLAIMS[4]], some, ("method",)).needs[0] == "policies learned ood"


def test_without_trained_policies_the_shipped_ones_are_judged(tmp_path):
    trials, accuracy, note = policy_scores(tmp_path)
    assert set(trials.method) == {"rollouts"} and "the shipped ones" in note
    seeds = trials.groupby("training").training_seed.nunique()
    assert trials.groupby(["training", "training_seed", "variant"]).ngroups == 4 * seeds.sum(), "all kinds of evidence"
    assert set(trials.depth) == {"paper"} and seeds.tolist() == [3, 3]
    ledger = ledger_by_method({POLICIES: Scored(trials, POLICIES, accuracy)}).set_index("claim")
    assert ledger.verdict[8] == "holds" and "policies ood" in ledger.measured[4]
    assert ledger.verdict[1] in ("holds", "fails") and ledger.seeds[7] == 3
    assert ledger.measured[7].count("evidence needed") == 4, "at four strengths"
    own = trials[trials.training == "ood"].assign(training_seed=5)
    (tmp_path / "ood-5").mkdir()
    own.to_parquet(tmp_path / "ood-5" / "scores.parquet")
    accuracy.to_csv(tmp_path / "ood-5" / "accuracy.csv")
    assert set(policy_scores(tmp_path)[0].training_seed) == {5} and policy_scores(tmp_path)[2] == ""


def words_of(figure):
    return figure.get_supxlabel().replace("\n", " ")


def test_every_row_of_the_headline_has_its_number_of_trials_and_people_stand_apart():
    pairs = [Plan(2, houses=2).pair(k) for k in range(10)]
    many = marple.score_pairs(pairs, marple.exact_method).assign(variant="V")
    few = marple.score_pairs(pairs[:2], marple.exact_method).assign(prior="open", variant="open")
    check = marple.score_pairs(pairs, marple.holds_query, prior=1.0).assign(variant=CHECK)
    perfect = many.assign(variant=PERFECT)
    learned = [many.assign(training=training, training_seed=seed) for training in ("in", "ood") for seed in (0, 1)]
    figure, drawn = fig_evidence(pd.concat([many, few, check, perfect]), simulated=pd.concat(learned))
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ours = [name for name in names if "published" not in name]
    assert all(", n = " in name for name in ours) and "exact inference, V, any of ten missions, n = 2" in ours
    assert [name for name in names if name.startswith(("people", "language"))] == names[-2:]
    blocks = sorted(line.get_ydata()[0] for line in figure.axes[0].lines if list(line.get_xdata()) == [0, 1])
    assert names[int(blocks[0] + 0.5)].startswith("exact") and int(blocks[1] + 0.5) == len(names) - 2
    rows = drawn[drawn.series == "V, policies"]
    assert rows.scenario.tolist() == ["in", "ood"] and (rows.low < rows.high).all() and rows.trials.tolist() == [10, 10]
    assert "training seeds: in 2, ood 2" in words_of(figure) and "people" not in figure.axes[0].get_title(loc="left")
    assert "n = 2 trials" in words_of(fig_preferences(pd.concat([many, few]))[0])


def test_every_figure_of_w_1_says_that_the_mission_is_given():
    pairs = [Plan(2, houses=1).pair(k) for k in range(10)]
    table = marple.score_pairs(pairs, marple.exact_method)
    known = marple.score_pairs(pairs, marple.exact_method, prior=1.0)
    simulated = known.assign(training="in", training_seed=0)
    figures = (fig_preferences(pd.concat([known, table])), fig_evidence(table, simulated=simulated))
    assert all(GIVEN in words_of(figure) for figure, _ in figures)
    assert not any(GIVEN in words_of(figure) for figure, _ in (fig_preferences(table), fig_evidence(table)))


@pytest.mark.parametrize("path", sorted((ROOT / "figures" / "marple").glob("*/*.csv")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_kept_figures_have_the_names_of_the_code(path):
    table = pd.read_csv(path)
    known = {
        *LOOKS, *(f"{name}, published" for name in PUBLISHED_NEEDED.index), *(f"{name}, policies" for name in VARIANTS)
    }
    if "series" in table:
        assert set(table.series.astype(str)) <= known, "drawn by other code; draw it again"
