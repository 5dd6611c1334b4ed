"""Claims, the grid of a figure, and films."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from aawm import infant
from aawm.infant.claims import Scores
from aawm.infant.commands import app
from aawm.infant.figures import above_rules, chosen_scores, count_sentence, fig_accuracy, fig_controls

FACTS = dict(
    part="", pair_type="EU", reduction="mean", window="all", version="faithful", needs="frames", pairs=100,
    low=0, high=1, seed=0
)


def scored(**varied) -> pd.DataFrame:
    "A table of scores with a row for each value."
    return pd.DataFrame([FACTS | dict(zip(varied, values)) for values in zip(*varied.values())])


def test_an_observer_of_ones_own_is_among_the_controls():
    observers = ["longer_odd", "expects_home", "bayesian"]
    table = scored(set=["belief"] * 3, observer=observers, accuracy=[0.1, 0.7, 1.0], low=[0.05, 0.4, 0.9], high=[0.2, 0.9, 1], window=["motion"] * 3)
    axes = fig_controls(table)[0].axes[0]
    assert [label.get_text().replace("\n", " ") for label in axes.get_xticklabels()] == ["longer is odd", "Expects Home"]
    assert [text.get_text() for text in axes.texts] == ["1 of 1", "0 of 1"]


def test_play_says_in_words_what_a_page_shows(tmp_path):
    store = infant.generate(tmp_path / "a", "preference", 1, progress=False)
    page = tmp_path / "odd.html"
    done = CliRunner().invoke(app, ["play", str(store), "--episode", "1", "--save", str(page)])
    what = "preference, item 0: unexpected (it takes the object that it never took); condition: swapped; ending: other"
    assert done.output == f"{page}: written; {what}\n" and "surprise of bayesian" in page.read_text()


def test_each_observer_is_on_its_own_scale():
    kinds = [("mean", "all"), ("max", "all"), ("mean", "motion"), ("own", "own")]
    observers = ["copy_last", "copy_last", "bayesian", "bayesian", "mine"]
    reductions, windows = zip(*(kinds[k] for k in (0, 1, 0, 2, 3)))
    table = scored(set=["belief"] * 5, observer=observers, accuracy=np.arange(5) / 10, reduction=reductions, window=windows)
    assert chosen_scores(table).accuracy.tolist() == [0.0, 0.3, 0.4]
    assert {"reduction", "window"} <= set(chosen_scores(table))
    assert Scores(table).rows.accuracy.tolist() == [0.0, 0.3, 0.4], "claims are on the same scale"


def test_published_marks_have_their_scale_and_those_alone_are_drawn():
    table = scored(
        set=["preference"] * 2, observer=["state_transformer", "longer_odd"], accuracy=[0.8, 0.5],
        window=["motion", "motion"]
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
    assert set(labels) == {"best rule", "objects from states", *(f"{name}, published" for name in ("HBToM", "Video-RNN", "VT", "Transformer"))}
    balanced = fig_accuracy(table.assign(version="balanced"))[1]
    assert set(balanced.source) == {"here"}, "balanced sets were never published"


def test_the_count_stands_beside_what_can_be_reached():
    sets = ["preference", "multi_agent", "efficiency_time"]
    best = scored(set=sets, observer=["ideal"] * 3, accuracy=[1.0] * 3, low=[0.9] * 3, window=["motion"] * 3)
    own = scored(set=sets, observer=["bayesian"] * 3, accuracy=[0.8, 0.9, 0.6], low=[0.7, 0.8, 0.4], window=["motion"] * 3)
    rule = scored(set=sets, observer=["same_path"] * 3, accuracy=[0.5, 1.0, 0.5], window=["motion"] * 3)
    noise = scored(set=sets, observer=["untrained"] * 3, accuracy=[0.95] * 3, low=[0.9] * 3, window=["motion"] * 3)
    table = pd.concat([best, own, rule, noise])
    assert above_rules(table, "bayesian").above_rules.tolist() == [True, False, False]
    assert count_sentence(table, "endings") == "Of 3 endings, above chance and every rule without goals: Ideal 2, Bayesian 1."
