"""A run with so few trials that an event is missing among them says that n is too small, in one line or in the panel."""

from dataclasses import replace
from pathlib import Path

import pytest

from aawm.data import open_trials
from aawm.data.making.collect import store_trials
from aawm.errors import UsageError
from aawm.evaluation import ConstantVelocity, Protocol, evaluate_each, gather, paper_ledger
from aawm.evaluation.results import save
from aawm.sim import simulate
from aawm.viz import Example, describe, fig3, fig4, fig5, swm3, swm4

SMALL = {  # scenarios of three trials
    "no robot gathers": ("random_random",) * 3,
    "one goal, no second": ("gathering_static", "random_mimic", "random_random"),
}
SMALL_N = "n too small"


@pytest.fixture(scope="module", params=SMALL)
def small(request, tmp_path_factory):
    "Name, store and folders of evaluations, strict and published, of three trials."
    folder = tmp_path_factory.mktemp("small")
    trials = [simulate(name, seed, fidelity="planar") for seed, name in enumerate(SMALL[request.param])]
    store = store_trials(folder / "trials", trials)
    both = ["strict", "published"]
    protocols = [Protocol(scoring=name, split=None) for name in both]
    made = evaluate_each(ConstantVelocity(), store, protocols, progress=False, device="cpu")
    for name, evaluation in zip(both, made):
        save(evaluation, folder / name)
    return request.param, store, [folder / name for name in both]


def figures(store: Path, folders: list) -> dict:  # name -> a function that draws
    "Every figure of an evaluation."
    strict = gather(folders[:1])
    both = gather(folders, across="scoring")
    example = Example(open_trials(store).state.values[0], 30, strict.records[0]["model"])
    return {
        "fig3": lambda: fig3(strict.scores),
        "fig4": lambda: fig4(strict.scores, strict.curves),
        "fig5": lambda: fig5(strict.scores, strict.curves, example),
        "swm3": lambda: swm3(both.scores),
        "swm4": lambda: swm4(strict.scores),
    }


def says(figure) -> bool:
    "Whether a panel, or the note, says that n is too small."
    panels = [text.get_text() for axes in figure.axes for text in axes.texts]
    return any(SMALL_N in text or "n is too small" in text for text in [*panels, figure._supxlabel.get_text()])


def test_figures_of_three_trials(small):
    name, store, folders = small
    outcomes = {}
    for figure, draw in figures(store, folders).items():
        try:
            drawn, table = draw()
        except UsageError as fault:
            assert str(fault).startswith(SMALL_N) and "\n" not in str(fault)
            outcomes[figure] = "refused"
        else:
            if "label" in table:
                assert describe(table, "Bars.").startswith("Bars.")
            outcomes[figure] = "says" if says(drawn) else "drawn"
    expected = {"swm3": "drawn", "swm4": "says", "fig5": "says"}
    # bins of fewer than ten are left out
    expected |= {"fig3": "refused", "fig4": "refused"} if name == "no robot gathers" else {
        "fig3": "says", "fig4": "says"
    }
    assert outcomes == expected


def test_the_ledger_of_three_trials_is_undecided(small):
    _, _, folders = small
    results = gather(folders, across="scoring")
    who = {"model": "transformer", "variant": "corrected"}  # as if a model of the paper had been evaluated
    tables = {name: getattr(results, name).assign(**who) for name in ("outcomes", "curves")}
    ledger = paper_ledger(replace(results, **tables), released=False)
    assert len(ledger) and set(ledger.direction) == {"undecided"}
