"""Walkers: somebody on a line goes left or right in the end, and a subject has to say which after seeing some steps."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from aawm.ledger import Claim, Evidence, above, card_page, check_claims, entering, every, markdown_table, origin_sections, ratio
from aawm.store import Array, Layout, Table, build_store, open_store, read_manifest
from aawm.viz import WIDTH, house_style, panel_title

STEPS, SEEN = 20, (1, 5, 10, 15)
LAYOUT = Layout(
    "walks", 1, {"place": Array(("walk", "step"), "int8")}, {"walks": Table(("goal",), along="walk")}, sizes={"step": STEPS}
)


def generate(path, walks, seed=0):
    "Make walks into a store; a killed call goes on, and a walk depends on the seed and its number alone."

    def make(chunks):
        for number, indices in chunks.items():
            draws = [np.random.default_rng((seed, index)) for index in indices]
            goals = [int(draw.choice([-1, 1])) for draw in draws]
            steps = [goal * draw.choice([-1, 1], STEPS, p=[0.35, 0.65]) for goal, draw in zip(goals, draws)]
            yield number, {"place": np.cumsum(steps, axis=1).astype(np.int8)}, goals

    def finish(contents):
        return {"tables": {"walks": pd.DataFrame({"goal": sum(contents, [])})}}

    return build_store(path, LAYOUT, {"walk": walks}, {"walks": walks, "seed": seed}, make, finish)


def open_walks(path):
    "Open a store of walks: places `[walk, step]` and goals, -1 or 1."
    return open_store(path, LAYOUT)


# a subject takes the places that are shown, `[walk, seen]`, and says -1, 1 or 0 (no idea) of each walk
SUBJECTS = {
    "where it is": lambda shown: np.sign(shown[:, -1]),
    "its last step": lambda shown: np.sign(np.diff(shown, prepend=0)[:, -1]),
}


def score(walks, subjects, seed=0):
    "Ask every subject about every walk: a row for each subject, walk and number of steps seen."
    rows = []
    for name, subject in subjects.items():
        for seen in SEEN:
            said = subject(walks.place.values[:, :seen])
            hits = np.where(said == 0, 0.5, said == walks.goal.values)
            rows.append(pd.DataFrame({"subject": name, "seen": seen, "seed": seed, "trial": walks.walk.values, "hits": hits, "of": 1}))
    return pd.concat(rows, ignore_index=True)


class Scored(Evidence):
    "The rows of one subject."

    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def right(self, seen):
        "Measure the share of right answers after some steps."
        return self.note(f"right after {seen}", "walks", ratio(f"right after {seen}", "walks", self.rows[self.rows.seen == seen]))


CLAIMS: dict[int, Claim] = {}
claim = entering(CLAIMS)


@claim(1, "1", "Better than chance after ten steps", "After ten steps more than half of the answers are right")
def claim_1(of):
    return above(of.right(10), 0.5)


@claim(2, "1", "Who looks longer knows more", "After fifteen steps more is known than after five, and then than after one")
def claim_2(of):
    numbers = [of.right(seen) for seen in (1, 5, 15)]
    return every(*(above(later, sooner) for sooner, later in zip(numbers, numbers[1:])))


def ledger(scores):
    "Check all claims for all subjects."
    evidence = {(name,): Scored(rows) for name, rows in scores.groupby("subject", sort=False)}
    return check_claims(list(CLAIMS.values()), evidence, ("subject",))


def curves(scores):
    "Draw how often each subject is right, by steps seen, with 95 % intervals; the figure and its numbers."
    table = []
    with house_style():
        figure = Figure(figsize=(WIDTH / 2, 2.2))
        axes = figure.subplots()
        for name, rows in scores.groupby("subject", sort=False):
            numbers = [Scored(rows).right(seen) for seen in SEEN]
            ends = np.array([number.ends() for number in numbers])
            (line,) = axes.plot(SEEN, [number.value for number in numbers], "o-", label=name)
            axes.fill_between(SEEN, *ends.T, alpha=0.2, color=line.get_color(), lw=0)
            table += [(name, seen, number.value, *end) for seen, number, end in zip(SEEN, numbers, ends)]
        axes.axhline(0.5, color="black", lw=0.7, ls=":")
        axes.set(xlabel="steps seen", ylabel="right", ylim=(0, 1.02))
        axes.legend()
        panel_title(axes, "A", "Where does it go?")
    return figure, pd.DataFrame(table, columns=["subject", "seen", "right", "low", "high"])


def dataset_card(path):
    "Say in a page what a store holds, counted in the store itself."
    goals = open_walks(path).goal.to_series()
    counts = pd.DataFrame({"walks": goals.value_counts(), "share": goals.value_counts(normalize=True)})
    sections = {"What it is": "Walks on a line.", "What happens in it": markdown_table(counts, 2)}
    return card_page(Path(path).name, sections | origin_sections(read_manifest(path, LAYOUT)))
