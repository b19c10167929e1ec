"""Verdicts: every position of an interval relative to 0 and the margin."""

from __future__ import annotations

from typing import get_args

import pytest

from mtkit.evidence.claim import CheckConfig, Expectation
from mtkit.evidence.effect import Effect, Spread, Verdict, judge, lacks, overall

YES, NO, LESS, PART, OPEN = Verdict.confirmed, Verdict.contrary, Verdict.smaller, Verdict.partly, Verdict.undecided


def effect(low: float | None, high: float | None) -> Effect:
    """An effect whose whole interval, that of the normal distribution, comes from the test lines."""
    if low is None or high is None:
        return Effect(0.0, [Spread(0.0, 0.0, 1)], 0.0)
    return Effect((low + high) / 2, [Spread(0.0, 2.0, 3)], (high - low) / 2 / 1.959964)


def check(expect: Expectation) -> CheckConfig:
    return CheckConfig(of="a", against="b", expect=expect, margin=1.0)


@pytest.mark.parametrize(
    ("low", "high", "verdicts"),
    [
        (2.0, 3.0, [YES, NO, NO, YES]),
        (0.2, 3.0, [YES, NO, OPEN, YES]),
        (0.2, 0.8, [LESS, NO, LESS, YES]),
        (-0.5, 0.5, [LESS, LESS, YES, YES]),
        (-0.5, 2.0, [OPEN, LESS, OPEN, YES]),
        (-2.0, 2.0, [OPEN, OPEN, OPEN, OPEN]),
        (-2.0, 0.5, [LESS, OPEN, OPEN, OPEN]),
        (-0.8, -0.2, [NO, LESS, LESS, LESS]),
        (-3.0, -0.2, [NO, YES, OPEN, OPEN]),
        (-3.0, -2.0, [NO, YES, NO, NO]),
        (None, None, [OPEN, OPEN, OPEN, OPEN]),
    ],
)
def test_verdicts(low: float | None, high: float | None, verdicts: list[Verdict]) -> None:
    """Verdicts of the expectations higher, lower, equal and not lower, with a margin of 1."""
    assert [judge(check(each), effect(low, high)) for each in get_args(Expectation)] == verdicts


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ([YES, YES], YES),
        ([NO, NO], NO),
        ([LESS], LESS),
        ([YES, OPEN], OPEN),
        ([YES, NO], PART),
        ([YES, LESS, OPEN], PART),
        ([NO, LESS], NO),
        ([NO, OPEN], NO),
        ([LESS, OPEN], OPEN),
    ],
)
def test_the_verdict_of_a_claim_follows_from_its_parts(parts: list[Verdict], verdict: Verdict) -> None:
    assert overall(parts) == verdict


def test_an_undecided_comparison_names_the_fewest_seeds_that_decide() -> None:
    """Seeds count twice: in the standard error, and in the quantile of Student's distribution (4.303 for 3 seeds)."""
    now = Effect(0.5, [Spread(0.25, 2.0, 3)], 0.0)  # 0.5 ± 4.303 · 0.5 / sqrt(3) = 0.5 ± 1.24
    assert judge(check("higher"), now) == OPEN
    # 6 seeds: 2.571 · 0.5 / sqrt(6) = 0.525; 7: 2.447 · 0.5 / sqrt(7) = 0.462, below the 0.5 to 0 and to the margin
    assert lacks(check("higher"), now) == "7 seeds (smaller than the margin, if it stays)"
    assert judge(check("higher"), now.with_seeds(6)) == OPEN


def test_seeds_do_not_replace_test_lines() -> None:
    """-0.8 ± 0.98 at any number of seeds; with half of the variance ± 0.69."""
    now = Effect(-0.8, [Spread(0.01, 2.0, 3)], 0.5)
    assert lacks(check("lower"), now).endswith("seeds and twice the test lines (confirmed, if it stays)")


def test_no_amount_decides_on_the_border() -> None:
    assert lacks(check("equal"), effect(0.0, 2.0)) == "an effect further from the border of two verdicts"
    assert lacks(check("higher"), effect(None, None)) == "more than one seed"
