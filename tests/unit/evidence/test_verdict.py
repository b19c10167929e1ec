"""Verdicts: every position of an interval relative to 0 and the margin."""

from __future__ import annotations

from typing import get_args

import pytest

from mtkit.evidence.claim import CheckConfig, Expectation
from mtkit.evidence.paired_effect import Effect
from mtkit.evidence.verdict import Outlook, Verdict, judge, missing_data, outlook, overall

YES, NO, OPEN = Verdict.confirmed, Verdict.refuted, Verdict.undecided


def effect(low: float | None, high: float | None) -> Effect:
    mean = 0.0 if low is None or high is None else (low + high) / 2
    return Effect(mean, low, high, 0.1, 0.0)


def check(expect: Expectation) -> CheckConfig:
    return CheckConfig(of="a", against="b", expect=expect, margin=1.0)


@pytest.mark.parametrize(
    ("low", "high", "verdicts"),
    [
        (2.0, 3.0, [YES, NO, NO, YES]),
        (0.2, 3.0, [YES, NO, OPEN, YES]),
        (0.2, 0.8, [YES, NO, YES, YES]),
        (-0.5, 0.5, [NO, NO, YES, YES]),
        (-0.5, 2.0, [OPEN, NO, OPEN, YES]),
        (-2.0, 2.0, [OPEN, OPEN, OPEN, OPEN]),
        (-2.0, 0.5, [NO, OPEN, OPEN, OPEN]),
        (-0.8, -0.2, [NO, YES, YES, YES]),
        (-3.0, -0.2, [NO, YES, OPEN, OPEN]),
        (-3.0, -2.0, [NO, YES, NO, NO]),
        (None, None, [OPEN, OPEN, OPEN, OPEN]),
    ],
)
def test_verdicts(low: float | None, high: float | None, verdicts: list[Verdict]) -> None:
    """Verdicts of the expectations higher, lower, equal and not lower, with a margin of 1."""
    assert [judge(check(each), effect(low, high)) for each in get_args(Expectation)] == verdicts


def test_a_claim_stands_or_falls_with_all_its_checks() -> None:
    assert overall([YES, YES]) == YES
    assert overall([YES, OPEN]) == OPEN
    assert overall([YES, OPEN, NO]) == NO


@pytest.mark.parametrize("expect", ["higher", "lower", "equal", "not_lower"])
@pytest.mark.parametrize("mean", [-2.3, -0.4, 0.3, 0.7, 1.8])
def test_the_missing_data_decide(expect: Expectation, mean: float) -> None:
    """An interval that is narrower by the square root of the factor has a verdict, one of less data has none."""
    half = 4.0
    undecided = effect(mean - half, mean + half)
    assert judge(check(expect), undecided) == OPEN
    factor = missing_data(check(expect), undecided)
    assert factor is not None
    narrow, wide = (half / count**0.5 for count in (factor * 1.001, (factor - 1) * 0.999))
    assert judge(check(expect), effect(mean - narrow, mean + narrow)) != OPEN
    assert judge(check(expect), effect(mean - wide, mean + wide)) == OPEN


@pytest.mark.parametrize(
    ("expect", "mean", "half", "expected"),
    [
        ("higher", 0.7, 2.5, YES),
        ("higher", 0.3, 2.5, NO),  # below the margin before it is above 0
        ("higher", -2.3, 4.0, NO),
        ("lower", -0.7, 2.5, YES),
        ("lower", 1.8, 4.0, NO),
        ("equal", 0.3, 2.5, YES),
        ("equal", -1.8, 2.5, NO),
        ("not_lower", -0.4, 2.5, YES),
        ("not_lower", -2.3, 4.0, NO),
    ],
)
def test_the_outlook_names_the_verdict_of_that_much_data(
    expect: Expectation, mean: float, half: float, expected: Verdict
) -> None:
    now = effect(mean - half, mean + half)
    assert judge(check(expect), now) == OPEN
    found = outlook(check(expect), now)
    assert found is not None
    assert found == Outlook(missing_data(check(expect), now) or 0, expected)
    narrower = half / (found.factor * 1.001) ** 0.5
    assert judge(check(expect), effect(mean - narrower, mean + narrower)) == expected


def test_an_effect_about_the_border_of_two_verdicts_has_no_outlook() -> None:
    """Twenty times the data are the limit (method.md)."""
    assert outlook(check("not_lower"), effect(-2.7, 1.7)) == Outlook(20, YES)
    assert missing_data(check("not_lower"), effect(-3.2, 2.2)) == 30
    assert outlook(check("not_lower"), effect(-3.2, 2.2)) is None


def test_a_factor_that_reaches_the_border_exactly_has_a_verdict() -> None:
    assert outlook(check("higher"), effect(-2.0, 6.0)) == Outlook(4, YES)  # half of 4 is the distance of 2 from 0


def test_no_amount_decides_on_the_border() -> None:
    assert missing_data(check("equal"), effect(0.0, 2.0)) is None
    assert missing_data(check("higher"), effect(None, None)) is None
    assert outlook(check("equal"), effect(0.0, 2.0)) is None
    assert outlook(check("higher"), effect(2.0, 3.0)) is None  # decided already
    assert outlook(check("higher"), effect(2.0, 2.0)) is None
    assert outlook(check("higher"), effect(None, None)) is None
