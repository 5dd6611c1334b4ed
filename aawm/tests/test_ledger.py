"The ledger's statistics against simulation and slow references."


import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aawm.errors import UsageError
from aawm.ledger import (
    FAILS, HOLDS, NOT_MEASURED, UNDECIDED, Finding, Estimate, above, at_least, because_words, below, every, exactly,
    most, partial, ratio, standard_error,
)  # fmt: skip

chances = st.floats(0, 1)


def table(values, trials=100, noise=0.0, seed=0):
    "Rows of shares that differ by seed and trial."
    rng = np.random.default_rng(seed)
    rows = [
        {"seed": place, "trial": np.arange(trials), "hits": (rng.random(trials) < value) * 1.0, "of": 1.0}
        for place, value in enumerate(values)
    ]
    return pd.concat(map(pd.DataFrame, rows), ignore_index=True)


def test_a_difference_on_the_same_trials_is_paired():
    rng = np.random.default_rng(3)
    easy = rng.random(400)
    rows = {
        name: pd.DataFrame({"seed": 0, "trial": range(400), "hits": (easy < at) * 1.0, "of": 1.0})
        for name, at in (("a", 0.60), ("b", 0.55))
    }
    a, b = (ratio(name, name, here) for name, here in rows.items())
    paired = standard_error(a - b, seeds=False)[0]
    apart = standard_error(a - ratio("b", "b", rows["b"].assign(trial=range(1000, 1400))), seeds=False)[0]
    assert paired < 0.4 * apart and above(a, b).verdict == HOLDS
    drawn = [
        np.mean((easy < 0.6)[pick].astype(int) - (easy < 0.55)[pick])
        for pick in rng.integers(400, size=(3000, 400))
    ]
    assert np.isclose(paired, np.std(drawn), rtol=0.1)


def test_seeds_of_one_model_are_paired_and_those_of_two_are_not():
    now, later = (
        Estimate(name, {"m": np.array(values)})
        for name, values in (("now", [0.1, 0.5, 0.9]), ("later", [0.3, 0.7, 1.1]))
    )
    assert standard_error(later - now)[0] < 1e-12 and above(later, now, 0.1).verdict == HOLDS
    other = Estimate("other", {"n": np.array([0.3, 0.7, 1.1])})
    assert above(other, now, 0.1).verdict == UNDECIDED
    with pytest.raises(UsageError, match="seeds"):
        now + Estimate("one", {"m": np.array([0.1])})


@pytest.mark.slow
def test_ninety_five_percent_intervals_cover_ninety_five_percent():
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(300):
        by_seed = 0.5 + rng.normal(0, 0.05, 3)
        rows = [
            pd.DataFrame(
                {"seed": seed, "trial": range(200), "hits": (rng.random(200) < share) * 1.0, "of": 1.0}
            )
            for seed, share in enumerate(by_seed)
        ]
        low, high = ratio("s", "s", pd.concat(rows)).ends()
        covered += low <= 0.5 <= high
    assert 0.90 <= covered / 300 <= 0.98


@settings(deadline=None)
@given(st.lists(chances, min_size=1, max_size=7), st.data())
def test_partial_probabilities_grow_with_what_is_wanted(probabilities, data):
    least = data.draw(st.integers(1, len(probabilities)))
    assert partial(probabilities, len(probabilities)) == max(probabilities)
    assert partial(probabilities, 1) == min(1.0, len(probabilities) * min(probabilities))
    assert sorted(probabilities)[least - 1] <= partial(probabilities, least) <= 1


@settings(deadline=None)
@given(st.lists(st.sampled_from([Finding(1e-4, 1.0), Finding(1.0, 1e-4), Finding(0.5, 0.5), NOT_MEASURED]), min_size=1, max_size=6))
def test_all_and_most_follow_from_the_parts(parts):
    verdicts = [part.verdict for part in parts]
    whole = every(*parts)
    many = most(*parts)
    assert whole.verdict == (FAILS if FAILS in verdicts else UNDECIDED if UNDECIDED in verdicts else HOLDS)
    assert many.verdict == (HOLDS if verdicts.count(HOLDS) > len(parts) / 2 else FAILS if verdicts.count(FAILS) >= len(parts) / 2 else UNDECIDED)
    assert bool(whole.needs) == (whole.verdict == UNDECIDED) and whole.comparisons == len(parts)
    with pytest.raises(UsageError):
        at_least(len(parts) + 1, parts)


@settings(deadline=None)
@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(0, 2))
def test_a_comparison_and_its_opposite(one, two, blur):
    a, b = (
        Estimate(name, {name: np.array([value])}, pd.Series([blur, blur]))
        for name, value in (("a", one), ("b", two))
    )
    found = above(a, b).verdict
    opposite = below(a, b).verdict
    assert {found, opposite} in ({HOLDS, FAILS}, {UNDECIDED})
    assert found != HOLDS or one > two


@pytest.mark.parametrize("value, verdict", [(np.inf, HOLDS), (-np.inf, FAILS), (np.nan, UNDECIDED)])
def test_numbers_that_are_not_finite(value, verdict):
    endless = Estimate("endless", {"a": np.array([value, 1.0])}, pd.Series([np.nan, 0.1]))
    assert above(endless, 0.5).verdict == verdict and "endless" in str(above(endless, 0.5).text)


def test_corrected_influences_are_taken_as_they_are():
    rows = pd.Series([0.3, -0.3])
    plain, corrected = (Estimate("x", {"a": np.array([1.0])}, rows, corrected=done) for done in (False, True))
    assert np.isclose(standard_error(plain)[0], 0.6) and np.isclose(standard_error(corrected)[0], 0.3 * np.sqrt(2))
    assert np.isclose(standard_error((corrected - exactly(1.0)) * 2)[0], 0.6 * np.sqrt(2))


def test_what_fails_alone_and_not_among_many_says_so():
    held = Finding(0.0, 1.0, text="a 0.1 below 1")
    failed = Finding(1.0, 0.02, text="b 2.0 below 1")
    joined = every(failed, *[held] * 4)
    assert (failed.verdict, joined.verdict) == (FAILS, UNDECIDED)
    assert because_words(joined) == "not, alone, but undecided among 5: b 2.0 below 1"
