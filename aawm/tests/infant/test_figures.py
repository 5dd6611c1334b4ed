"""Claims, the grid of a figure, and films."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from aawm import infant
from aawm.infant.claims import CLAIMS, Scores
from aawm.infant.commands import app
from aawm.infant.figures import above_controls, accuracy_rows, chosen_scores, draw_grid, fig_accuracy, share_range
from aawm.infant.learning_check import NO_HISTORY, NOT_LEARNT
from aawm.infant.play import Film
from aawm.ledger import check_claims, standard_error, verdict_word

FACTS = dict(
    part="", pair_type="EU", reduction="mean", window="all", version="faithful", needs="frames", pairs=100,
    low=0, high=1, seed=0
)


def scored(**varied) -> pd.DataFrame:
    "A table of scores with a row for each value."
    return pd.DataFrame([FACTS | dict(zip(varied, values)) for values in zip(*varied.values())])


def test_pairs_of_two_strides_are_independent():
    name = "instrumental_blocking_barrier"
    of = Scores(scored(stride=[3, 6], accuracy=[0.6, 0.5], set=[name] * 2, observer=["transformer"] * 2))
    fine = of.accuracy("transformer", name, 3)
    coarse = of.accuracy("transformer", name)
    apart, one, other = (standard_error(number, seeds=False)[0] for number in (fine - coarse, fine, coarse))
    assert apart == pytest.approx(np.hypot(one, other), rel=0.01) and len((fine - coarse).influence) == 200
    assert len((of.accuracy("transformer", name) - coarse).influence) == 100, "a stride is paired with itself"


def test_who_is_not_trained_needs_an_evaluation_only():
    ledger = check_claims(
        [CLAIMS[5], CLAIMS[7]],
        {("faithful",): Scores(scored(set=["belief"], observer=["ideal"], accuracy=[1.0]))}, ("version",)
    )
    assert ledger.needs.tolist() == ["trained models", "evaluations"]


def test_an_observer_of_ones_own_is_in_the_grid():
    observers = ["longer_odd", "shorter_odd", "expects_home", "bayesian"]
    table = scored(set=["belief"] * 4, observer=observers, accuracy=[0.1, 0.9, 0.7, 1.0])
    axes = plt.Figure().subplots()
    draw_grid(axes, accuracy_rows(table), table)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["longer is odd", "Expects Home"]
    assert [text.get_text() for text in axes.texts] == ["10", "70"]


@pytest.mark.parametrize("observer, lowest", [("shorter_odd", -1.05), ("longer_odd", -0.05)])
def test_a_film_shows_negative_surprise(tmp_path, observer, lowest):
    store = infant.generate(tmp_path / "a", "efficiency_path", 1, progress=False)
    axes = Film(store, observers=(observer,)).figure(50).axes[1]
    low, high = axes.get_ylim()
    assert low == pytest.approx(lowest) and all(
        low < y < high for line in axes.lines[:2] for y in line.get_ydata()
    )


def test_play_says_in_words_what_a_film_shows(tmp_path, monkeypatch):
    store = infant.generate(tmp_path / "a", "preference", 1, progress=False)
    monkeypatch.setattr("aawm.infant.play.save_gif", lambda film, path: path)
    done = CliRunner().invoke(app, ["play", str(store), "--episode", "1", "--save", "odd.gif"])
    what = "preference, item 0: unexpected (it takes the object that it never took); condition: swapped; ending: other"
    assert done.output == f"odd.gif: written; {what}\n"


def test_a_claim_about_an_observer_that_has_not_learnt_is_not_tested():
    names = dict(
        set=["efficiency_path", "efficiency_time"], observer=["transformer"] * 2, accuracy=[0.2, 0.3]
    )
    claim = [CLAIMS[2]]
    for share, verdict in ((0.4, "fails"), (1.0, "not tested"), (np.nan, "fails")):
        row = check_claims(
            claim, {("faithful",): Scores(scored(**names, learning=[share] * 2, history=[0.0] * 2))}, ("version",)
        ).iloc[0]
        assert row.verdict == verdict and (row.needs == NOT_LEARNT) == (share == 1.0) and "0.2" in row.measured
    assert verdict_word("not tested", NOT_LEARNT) == "not tested: the observer has not learnt to predict"


def test_a_claim_about_goals_needs_an_observer_that_uses_history():
    names = dict(set=["instrumental_blocking_barrier"], observer=["transformer"], accuracy=[0.2], learning=[0.4])
    for history, verdict in ((1.0, "holds"), (0.0, "not tested")):
        table = Scores(scored(**names, history=[history]))
        row = check_claims([CLAIMS[4]], {("faithful",): table}, ("version",)).iloc[0]
        assert row.verdict == verdict and (row.needs == NO_HISTORY) == (verdict == "not tested")


def test_the_first_step_and_constant_velocity_stand_beside_a_claim():
    sets = ["efficiency_path", "efficiency_time"]
    rows = [
        scored(set=sets, observer=[observer] * 2, accuracy=[share] * 2, window=[window] * 2)
        for observer, window, share in (
            ("transformer", "all", 0.99), ("transformer", "first", 0.31), ("constant_velocity", "motion", 0.97)
        )
    ]
    row = check_claims([CLAIMS[2]], {("faithful",): Scores(pd.concat(rows))}, ("version",)).iloc[0]
    assert "first step" in row.measured and "0.31" in row.measured and "constant_velocity 0.97" in row.measured
    assert share_range(row.measured) == "97 to 99 %"


def test_each_observer_is_on_its_own_scale():
    kinds = [("mean", "all"), ("max", "all"), ("mean", "motion"), ("own", "own")]
    observers = [
        "transformer", "transformer", "transformer", "copy_last", "copy_last", "bayesian", "bayesian", "mine"
    ]
    reductions, windows = zip(*(kinds[k] for k in (0, 1, 2, 0, 1, 0, 2, 3)))
    table = scored(
        set=["belief"] * 8, observer=observers, accuracy=np.arange(8) / 10, reduction=reductions,
        window=windows
    )
    assert chosen_scores(table).accuracy.tolist() == [0.0, 0.3, 0.6, 0.7] and {
        "reduction", "window"
    } <= set(chosen_scores(table))
    assert Scores(table).tables[""].accuracy.tolist() == [0.0, 0.3, 0.6, 0.7], "claims are on the same scale"


def test_published_marks_have_their_scale_and_those_alone_are_drawn():
    table = scored(
        set=["preference"] * 2, observer=["transformer", "longer_odd"], accuracy=[0.8, 0.5],
        window=["all", "motion"]
    )
    figure, drawn = fig_accuracy(table)
    marks = drawn[drawn.source == "published"].set_index("observer")
    assert marks.loc["VT", ["reduction", "window"]].tolist() == [
        "mean", "all"
    ] and marks.accuracy["VT"] == pytest.approx(0.821)
    assert marks.loc["Video-RNN", ["reduction", "window"]].tolist() == [
        "max", "all"
    ] and marks.accuracy["Video-RNN"] == pytest.approx(0.476)
    labels = [text.get_text() for text in figure.axes[1].get_legend().get_texts()]
    assert labels == ["Transformer", "Video-RNN, published", "VT, published", "published"]
    balanced = fig_accuracy(table.assign(version="balanced"))[1]
    assert set(balanced.source) == {"here"}, "balanced sets were never published"


def test_above_chance_is_not_above_the_controls():
    facts = dict(
        set=["preference"] * 3, observer=["transformer", "copy_last", "ideal"],
        window=["all", "all", "motion"], low=[0.7, 0.7, 0.9]
    )
    rows = above_controls(scored(**facts, accuracy=[0.8, 0.9, 1.0]))
    assert (
        rows.above_chance.tolist() == [True] and rows.above_controls.tolist() == [False]
        and rows.control.tolist() == ["copy_last"]
    )
    assert above_controls(
        scored(**facts, accuracy=[0.8, 0.6, 1.0])
    ).above_controls.tolist() == [True], "the Ideal is no control"


def test_crossed_rows_are_read_apart_from_pairs():
    of = Scores(
        scored(
            set=["goal_attribution"] * 2, observer=["transformer"] * 2, accuracy=[0.9, 0.2],
            pair_type=["EU", "HE"]
        )
    )
    assert of.accuracy("transformer", "goal_attribution").value == 0.9
    row = check_claims([CLAIMS[5]], {("faithful",): of}, ("version",)).iloc[0]
    assert row.verdict == "holds" and "history x ending: transformer, every 6 frames 0.20" in row.measured
