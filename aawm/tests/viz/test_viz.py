"""Figures: what is drawn is what is saved, nothing is clipped or empty, and a model looks the same everywhere."""

from itertools import combinations, product
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from aawm.errors import EnvironmentProblem, UsageError
from aawm.viz import (
    PUBLISHED_SCORES, STYLES, Example, Rollout, PanelScene, event_table, fig1, fig2, fig3, fig4, fig5, save_figure, styles_of
)
from aawm.evaluation import CLAIMS
from aawm.schema import BEHAVIORS
from aawm.viz import PUBLISHED_ADE, claims_figure, swm3, swm4
from aawm.viz.figures import MOST_WORDS, describe
from aawm.viz.marks import BARS, FALSE

FEW = ["multistep_predictor", "rssm_discrete", "oracle"]
MANY = [*STYLES, "somewhere.models:AnUncommonlyNamedModel", "crystal_ball"]
TASKS = [
    ("single_goal", "object"), ("single_goal_later", "object"), ("multi_goal", "2nd"), ("multi_goal", "3rd"),
    ("pickup", "object"), ("move", "object")
]
CURVES = ["ade", "ade_still", "displacement_still", "loss_pickup", "loss_goal"]


def made(random, low, high, **columns):
    "A row for each combination of what the columns hold, with a value drawn between two ends."
    table = pd.DataFrame(product(*columns.values()), columns=list(columns))
    values = np.random.default_rng(random).uniform(low, high, len(table))
    return table.assign(value=values, variant="corrected", count=40, left_out=2)


def made_scores(models, seeds=3):
    kinds = [
        (task, target, metric)
        for task, target in TASKS
        for metric in (*(("precision", "recall", "f1") if task == "move" else ("recall",)), "false_positive", "ceiling")
    ]
    table = made(5, 0, 1, model=models, kind=kinds, seed=range(seeds))
    table[["task", "target", "metric"]] = table.pop("kind").tolist()
    return table.assign(behavior="all", low=0.9 * table.value, high=1 - 0.9 * (1 - table.value))


def made_curves(models, seeds=3):
    places = [
        (curve, step)
        for curve in CURVES
        for step in (range(-60, 61, 5) if curve.startswith("loss") else range(250))
    ]
    table = made(6, 0.5, 2, model=models, seed=range(seeds), place=places)
    table[["curve", "step"]] = table.pop("place").tolist()
    value = table.groupby(["model", "seed", "curve"]).value.cumsum() / 20
    return table.assign(value=value, low=0.9 * value, high=1.2 * value, count=12)


def made_errors(models, seeds=3):
    scored = {"scoring": ("strict", "published"), "metric": ("ade", "fde"), "behavior": BEHAVIORS}
    table = made(7, 1, 9, model=models, seed=range(seeds), **scored)
    return table.assign(task="error_by_step", target="all", low=0.9 * table.value, high=1.1 * table.value)


KINDS = (("holds", "by construction"), ("fails", ""), ("undecided", "seeds, trials"), ("not tested", "at the floor"))


def made_ledger():
    "A row for each claim, scoring and variant."
    cells = product(CLAIMS, ("strict", "published"), ("corrected", "published"))
    rows = [(claim.number, claim.figure, claim.statement, scoring, variant, *KINDS[k % 4], k % 3, 3)
            for k, (claim, scoring, variant) in enumerate(cells)]  # fmt: skip
    names = "claim figure statement scoring variant verdict needs held comparisons"
    return pd.DataFrame(rows, columns=names.split())


def made_trial(seed=0, steps=300):
    draw = np.random.default_rng(seed)
    states = np.zeros((steps, 5, 7))
    states[:, :, [0, 2]] = draw.uniform(-3, 4, (5, 2)) + draw.normal(0, 0.05, (steps, 5, 2)).cumsum(0)
    states[..., -1] = 1
    return states


def drawn(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


def figures(models, seeds=3):
    "Every figure of the paper, with as much on it as there can be."
    scores = made_scores(models, seeds)
    curves = made_curves(models, seeds)
    example = Example(made_trial(), 50, models[1], "mimicry trial")
    kinds = ("honey jar", "backpack", "purse")
    scenes = [
        PanelScene(title, made_trial(place), 60, kinds)
        for place, title in enumerate(("Collaborative", "Single-step", "Chasing", "Mimicry"))
    ]
    events = event_table(
        {
            ("pickup", "log"): [80, 130, -1], ("pickup", "rule"): [70, 122, -1],
            ("goal", "log"): [99, 200, -1], ("goal", "rule"): [95, 190, -1]
        }
    )
    rollouts = [
        Rollout(made_trial(4), made_trial(5)[80:], 80, place, title, "t")
        for place, title in enumerate(("Delivered", "Not delivered"))
    ]
    return {
        "fig1": fig1(scenes, events, "Profile smoke."),
        "fig2": fig2(rollouts, "Hierarchical Oracle delivers 7 of 9; drawn are its first success and its first failure in the store's order."),
        "fig3": fig3(scores, published=PUBLISHED_SCORES, interval="bootstrap", scoring="published"),
        "fig4": fig4(scores, curves, published=PUBLISHED_SCORES, interval="bootstrap"),
        "fig5": fig5(scores, curves, example, published=PUBLISHED_SCORES),
        "swm3": swm3(made_errors(models, seeds), published=PUBLISHED_ADE, interval="bootstrap"),
        "swm4": swm4(made_scores(models, seeds).assign(scoring="published"), published=PUBLISHED_SCORES, interval="bootstrap"),
        "claims": claims_figure(made_ledger(), {claim.number: claim.brief for claim in CLAIMS}, "Profile smoke."),
    }


@pytest.fixture(scope="module", params=[(FEW, 1), (MANY, 3)], ids=["few", "many"])
def paper(request):
    return figures(*request.param)


def texts(figure):
    "Every text that is drawn, and its box in pixels; ticks beyond the limits of their axis are not drawn."
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            slack = 1e-9 * (high - low)
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low - slack <= tick.get_loc() <= high + slack:
                    hidden |= {tick.label1, tick.label2}
    found = [
        text
        for text in figure.findobj(matplotlib.text.Text)
        if text.get_visible() and text.get_text().strip() and text not in hidden
    ]
    return [(text.get_text(), text.get_window_extent(figure.canvas.get_renderer())) for text in found]


@pytest.mark.parametrize("name", ["fig1", "fig2", "fig3", "fig4", "fig5", "swm3", "swm4", "claims"])
def test_no_text_is_clipped_or_overlaps(paper, name):
    figure = paper[name][0]
    drawn(figure)
    room = figure.bbox.padded(1)
    found = texts(figure)
    assert len(found) > 8
    for text, box in found:
        assert room.contains(box.x0, box.y0) and room.contains(box.x1, box.y1), f"{text!r} leaves the figure"
    for (one, a), (two, b) in combinations(found, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        up = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 1 or up <= 2, f"{one!r} lies on {two!r}"


@pytest.mark.parametrize("name", ["fig1", "fig2", "fig3", "fig4", "fig5", "swm3", "swm4", "claims"])
def test_no_panel_is_empty(paper, name):
    for axes in paper[name][0].axes:
        assert axes.bbox.width > 40 and axes.bbox.height > 40, "large enough to be read"
        patches = [patch for patch in (*axes.patches, *axes.collections) if patch.get_visible()]
        says = any("n too small" in text.get_text() for text in axes.texts)
        assert patches or says or any(len(line.get_xdata()) for line in axes.get_lines())


def test_rows_of_models_stand_in_groups():
    scores = made_scores(["sgnet", "event_transformer", "oracle", "frozen_world"])
    people = made_scores(["people"], 1).assign(variant="n = 12")
    people = people[people.task != "single_goal_later"]
    figure, table = fig3(pd.concat([scores, people]))
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert {"the paper's models", "ours", "given more \N{DAGGER}", "no training", "people"} <= set(labels)
    names = ["SGNet", "Event Transformer", "Hierarchical Oracle \N{DAGGER}", "Frozen world", "People (n = 12)"]
    ticks = dict(zip(labels, figure.axes[0].get_yticks()))
    assert [ticks[name] for name in names] == sorted(ticks[name] for name in names), "in the order of groups"
    assert ticks["people"] < ticks["People (n = 12)"] and "not evaluated" in [
        text.get_text() for text in figure.axes[1].texts
    ]
    assert "People (n = 12): asked in a browser, with intervals over people." in figure._supxlabel.get_text().replace("\n", " ")


def test_one_colour_per_model_everywhere(paper):
    seen = {}
    for name in ("fig3", "fig4", "fig5"):
        figure, table = paper[name]
        looks = styles_of(table.series.dropna())
        rows = table[table.kind == "bar"] if "kind" in table else table[table.value.notna() & table.title.ne("Context ends")]
        title = rows.title.iloc[0]
        bars = next(group for group in figure.axes[0].containers if group.get_label() == BARS)
        for series, bar in zip(rows[(rows.title == title) & rows.value.notna()].series, bars.patches):
            seen.setdefault(series, set()).add(to_hex(bar.get_facecolor()).upper())
        for line in (line for axes in figure.axes for line in axes.get_lines() if line.get_label() in looks):
            seen.setdefault(line.get_label(), set()).add(to_hex(line.get_color()).upper())
    assert len(seen) >= 3 and all(len(colors) == 1 for colors in seen.values())
    assert len({color for colors in seen.values() for color in colors}) == len(seen)
    assert all(seen[name] == {STYLES[name].color} for name in seen if name in STYLES)


def luminance(rgb):
    part = np.asarray(rgb, dtype=float)
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


def faint(figure):
    "Every text whose letters have a contrast under 4.5 with what lies behind them."
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    shown = [text for text in figure.findobj(matplotlib.text.Text) if text.get_visible() and text.get_text().strip()]
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in shown]
    figure.set_layout_engine("none")  # all stays where it is
    for text in shown:
        text.set_visible(False)
    canvas.draw()
    behind = luminance(np.asarray(canvas.buffer_rgba())[::-1, :, :3] / 255)
    found = []
    for text, box in zip(shown, boxes):
        text.set_visible(True)
        part = behind[max(int(box.y0), 0) : int(box.y1) + 1, max(int(box.x0), 0) : int(box.x1) + 1]
        letters = luminance(matplotlib.colors.to_rgb(text.get_color()))
        if part.size:
            light, dark = max(np.median(part), letters), min(np.median(part), letters)
            found += [(text.get_text(), round((light + 0.05) / (dark + 0.05), 1))] if (light + 0.05) / (dark + 0.05) < 4.5 else []
    return found


@pytest.mark.parametrize("name", ["fig1", "fig2", "fig3", "fig4", "fig5", "swm3", "swm4", "claims"])
def test_every_text_can_be_read(paper, name):
    assert not faint(paper[name][0])


def test_pale_letters_are_found():
    figure = Figure()
    figure.text(0.5, 0.5, "pale", color="#56B4E9")
    figure.text(0.5, 0.2, "ink", color="#333333")
    assert [text for text, _ in faint(figure)] == ["pale"]


@pytest.mark.parametrize("name", ["fig3", "fig4", "fig5", "swm4"])
def test_an_alternative_text_is_short_and_has_the_finding(paper, name):
    words = describe(paper[name][1], "An opening.").split()
    assert 10 < len(words) <= MOST_WORDS and "leads," in words


def test_bounds_and_printed_numbers_are_drawn():
    figure, table = fig3(made_scores(FEW), published=PUBLISHED_SCORES)
    dashed = [[line.get_xdata()[0] for line in axes.get_lines() if line.get_label().startswith("_") and len(set(line.get_xdata())) == 1
               and line.get_linestyle() == "--"] for axes in figure.axes]
    assert dashed == [[0.1, 0.5], [], [], []]
    diamonds = [list(line.get_xdata()) for axes in figure.axes for line in axes.get_lines() if line.get_marker() == "D"]
    assert [value for values in diamonds for value in values] == table.published.dropna().tolist() and len(table.published.dropna()) == 6


def test_a_figure_says_who_knows_the_rules_and_who_has_learned_nothing():
    models = ["event_transformer", "nearest_carries", "sgnet"]
    note = fig3(made_scores(models))[0]._supxlabel.get_text().replace("\n", " ")
    assert "Event Transformer: knows the arena's rules." in note and "Nearest carries: a rule without learning." in note


def test_figures_for_comparison_with_the_paper_hold_its_models_alone():
    models = ["event_transformer", "nearest_carries", "sgnet", "oracle", "mine"]
    kept = {"sgnet", "oracle", "mine"}
    assert set(swm3(made_errors(models))[1].model) == set(swm4(made_scores(models))[1].model) == kept
    _, table = fig5(made_scores(models), made_curves(models))
    assert set(table.model[table.kind == "curve"]) == kept < set(table.model[table.kind == "bar"])


def test_error_bars_only_where_there_are_seeds():
    one = fig3(made_scores(FEW, 1))[0]
    three = fig3(made_scores(FEW, 3))[0]
    within = fig3(made_scores(FEW, 1), interval="bootstrap")[0]
    bars = [
        [type(container).__name__ for container in figure.axes[0].containers].count("ErrorbarContainer")
        for figure in (one, three, within)
    ]
    notes = [figure._supxlabel.get_text() for figure in (one, three, within)]
    assert bars == [0, 1, 1]
    assert "no error bars" in notes[0] and "one standard error" in notes[1] and "95 % bootstrap" in notes[2]


def test_a_panel_without_data_says_so():
    def says(axes):
        return any("n too small" in text.get_text() for text in axes.texts)

    scores = made_scores(FEW)
    curves = made_curves(FEW)
    scores.loc[scores.task == "multi_goal", "value"] = np.nan
    figure, table = fig3(scores[scores.task != "single_goal_later"])
    assert [says(axes) for axes in figure.axes] == [False, True, True, True] and not figure.axes[1].patches
    figure, _ = fig4(scores, curves[curves.curve != "loss_goal"])
    assert [says(axes) for axes in figure.axes] == [False, False, True]
    figure, table = fig5(scores, curves[curves.curve == "ade"])
    assert [says(axes) for axes in figure.axes] == [False, False, False, True, True] and "B" not in set(table.panel)
    with pytest.raises(UsageError, match="pickup"):
        fig4(scores[scores.task != "pickup"], curves)


def test_false_positives_carry_their_count_and_need_ten():
    scores = made_scores(FEW)
    scores.loc[(scores.metric == "false_positive") & (scores.task == "single_goal"), "count"] = 9
    figure, table = fig3(scores)
    thin = [sum(len(group) for group in axes.containers if group.get_label() == FALSE) for axes in figure.axes]
    assert not thin[0] and thin[1] == 3 and "(false: 40)" in figure.axes[1].get_xlabel() and "false" not in figure.axes[0].get_xlabel()


def test_every_panel_says_how_many_in_one_line():
    figure, table = fig5(made_scores(FEW, 3), made_curves(FEW, 3))
    f1 = table[(table.kind == "bar") & (table.title == "F1")]
    assert figure.axes[0].get_xlabel() == f"F1, n = {f1['count'].max():.0f}"
    assert all(", n = " in axes.get_xlabel() for axes in figure.axes[2:]) and not any("\n" in axes.get_xlabel() for axes in figure.axes)
    figure, table = swm3(made_errors(FEW, 3))
    assert f"single-step {table['count'].max():.0f}" in figure._supxlabel.get_text().replace("\n", " ")


def test_infinite_curves_fall_back_on_finite_rollouts():
    curves = made_curves(FEW)
    spare = curves[curves.curve == "ade"].assign(curve="ade_finite", value=7.0)
    curves.loc[
        (curves.model == "oracle") & (curves.curve == "ade") & (curves.step == 200) & (curves.seed == 1),
        "value"
    ] = np.inf
    figure, table = fig5(made_scores(FEW), pd.concat([curves, spare]))
    own = table[(table.curve == "ade") & (table.model == "oracle")].set_index("step")
    seeds = curves[(curves.curve == "ade") & (curves.model == "oracle") & (curves.step == 3)].set_index("seed").value
    assert len(own) == 250 and np.isclose(own.value[3], (seeds[0] + seeds[2] + 7.0) / 3)
    assert "finite rollouts alone: Hierarchical Oracle" in figure._supxlabel.get_text().replace("\n", " ")


@pytest.mark.slow
def test_a_failed_save_leaves_the_old_figure(tmp_path, monkeypatch):
    figure, table = fig3(made_scores(FEW))
    save_figure(figure, table, tmp_path, "fig3", {}, "Bars.")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(path, **options):
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", full)
    with pytest.raises(EnvironmentProblem, match="No space"):
        save_figure(figure, table, tmp_path, "fig3", {}, "Bars.")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(UsageError, match="alt text"):
        save_figure(figure, table, tmp_path, "fig3", {}, " ")
