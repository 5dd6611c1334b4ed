"""Committed figures: the table of claims agrees with the panels, and alternative texts are short."""

import json

import numpy as np
import pandas as pd
import pytest

from aawm.evaluation import CLAIMS
from aawm.evaluation.claims import PaperEvidence
from aawm.ledger import FAILS, HOLDS, exactly, most
from aawm.tests.conftest import ROOT


class Panels(PaperEvidence):
    "The numbers that Figures 3, 4 and 5 draw, each without an interval."

    def __init__(self, folder):
        super().__init__(pd.DataFrame(columns=["model", "task", "target"]), pd.DataFrame())
        drawn = pd.concat([pd.read_csv(folder / f"{name}.csv") for name in ("fig3", "fig4", "fig5")])
        self.bars = drawn[drawn.metric.notna()].drop_duplicates(["model", "task", "target", "metric"])
        self.lines = drawn[drawn.curve.notna()]

    def share(self, model, task, metric="recall", target="object"):
        of = "recall" if metric == "false_positive" else metric
        rows = self.bars[(self.bars.model == model) & (self.bars.task == task) & (self.bars.target == target) & (self.bars.metric == of)]
        value = rows["value" if of == metric else metric]
        return exactly(float(value.fillna(0).iloc[0])) if len(rows) and rows.value.notna().all() else None

    def windows(self, model, curve, *spans):
        rows = self.lines[(self.lines.model == model) & (self.lines.curve == curve)]
        reach = 0 if curve.startswith("loss") else 10  # steps that a point of the ledger's curves stands for
        means = [rows.value[rows.step.between(first - reach, last)].mean() for first, last in spans]
        return [None if np.isnan(mean) else exactly(float(mean)) for mean in means]


# profiles whose committed figures are of today's ledger; others are to be drawn again
DRAWN = [name for name in ("quick", "seeds") if "direction" in pd.read_csv(ROOT / f"figures/{name}/claims.csv", nrows=1)]


@pytest.mark.parametrize("profile", DRAWN)
def test_the_table_of_claims_agrees_with_each_panel(profile):
    "What is shown at 95 % goes the same way in the panel; what is refuted does not."
    folder = ROOT / "figures" / profile
    ledger = pd.read_csv(folder / "claims.csv")
    panels = Panels(folder)
    found = {claim.number: most(*claim.check(panels).direction).verdict for claim in CLAIMS}
    assert set(found.values()) <= {HOLDS, FAILS}, "every claim has its numbers in a panel"
    said = ledger[(ledger.scoring == "strict") & (ledger.variant == "corrected")].set_index("claim").direction
    against = {"yes": FAILS, "no": HOLDS}
    assert not [claim for claim, answer in said.items() if against.get(answer) == found[claim]]


RECORDS = sorted((ROOT / "figures").glob("**/*.json"))
RECORDS = [
    path for path in RECORDS if path.parent.name in DRAWN and "alt" in json.loads(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: "-".join(path.relative_to(ROOT / "figures").with_suffix("").parts))
def test_an_alternative_text_is_short(path):
    words = json.loads(path.read_text(encoding="utf-8"))["alt"].split()
    assert 12 <= len(words) <= 65
