"""Verdicts: what an effect and its confidence interval say about an expectation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from mtkit.evidence.claim import CheckConfig
from mtkit.evidence.paired_effect import Effect

MAX_FACTOR = 20  # of data, in a projection


class Verdict(StrEnum):
    """Outcome of a test."""

    confirmed = "confirmed"
    refuted = "not confirmed"
    undecided = "undecided"


def judge(check: CheckConfig, effect: Effect) -> Verdict:
    """Verdict of one comparison.

    higher, lower: confirmed if the whole interval is on the expected side of 0; not confirmed if the whole interval is
    below the margin in the expected direction. equal: confirmed if the whole interval is within the margin on both
    sides, not confirmed if it is outside. not_lower: confirmed if the whole interval is above minus the margin, not
    confirmed if it is below. Everything else is undecided, as is a single seed.
    """
    if effect.low is None or effect.high is None:
        return Verdict.undecided
    low, high = effect.low, effect.high
    if check.expect == "lower":
        low, high = -high, -low
    if check.expect == "equal":
        if -check.margin < low and high < check.margin:
            return Verdict.confirmed
        return Verdict.refuted if low > check.margin or high < -check.margin else Verdict.undecided
    if check.expect == "not_lower":
        low, high = low + check.margin, high + 2 * check.margin
    if low > 0:
        return Verdict.confirmed
    return Verdict.refuted if high < check.margin else Verdict.undecided


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Verdict of a claim: not confirmed if any check is, confirmed if all are, otherwise undecided."""
    every = set(verdicts)
    if Verdict.refuted in every:
        return Verdict.refuted
    return Verdict.confirmed if every == {Verdict.confirmed} else Verdict.undecided


def missing_data(check: CheckConfig, effect: Effect) -> int | None:
    """Factor by which seeds and test lines must grow for a decision, if the effect stays the same.

    The interval narrows with the square root of the data. None if the effect lies on the border of two verdicts, where
    no amount is enough, or from a single seed.
    """
    if effect.low is None or effect.high is None:
        return None
    half = (effect.high - effect.low) / 2
    mean = -effect.mean if check.expect == "lower" else effect.mean
    match check.expect:
        case "equal":
            distance = abs(check.margin - abs(mean))
        case "not_lower":
            distance = abs(check.margin + mean)
        case _:
            distance = max(mean, check.margin - mean)
    return math.ceil((half / distance) ** 2) if distance > 0.01 * half else None


@dataclass(frozen=True)
class Outlook:
    """Projection if the effect stays the same: the factor of `missing_data`, and the verdict with so much data."""

    factor: int
    verdict: Verdict


def outlook(check: CheckConfig, effect: Effect) -> Outlook | None:
    """The verdict that the least sufficient amount of data would give; None if there is one, or no amount is enough.

    None also above MAX_FACTOR: the effect is about the border of two verdicts, and says nothing about its side.
    """
    factor = missing_data(check, effect)
    if judge(check, effect) != Verdict.undecided or factor is None or effect.low is None or effect.high is None:
        return None
    if factor > MAX_FACTOR:
        return None
    half = (effect.high - effect.low) / 2 / math.sqrt(factor) * (1 - 1e-9)  # strictly within the border
    return Outlook(factor, judge(check, replace(effect, low=effect.mean - half, high=effect.mean + half)))
