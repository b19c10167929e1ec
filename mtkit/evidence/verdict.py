"""Verdicts: what an effect and its confidence interval say about an expectation."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from mtkit.evidence.claim import CheckConfig
from mtkit.evidence.effect import Effect

MAX_SEEDS = 20  # of a projection


class Verdict(StrEnum):
    """Outcome of a test."""

    confirmed = "confirmed"
    contrary = "contrary"
    smaller = "smaller than the margin"
    partly = "partly"
    undecided = "undecided"


def judge(check: CheckConfig, effect: Effect) -> Verdict:
    """Verdict of one comparison.

    | | contrary: the whole interval is | smaller: otherwise, it is | confirmed: otherwise, it is |
    |---|---|---|---|
    | higher | below 0 | below the margin | above 0 |
    | equal | outside of the margin | within it, and does not contain 0 | within the margin |
    | not_lower | below minus the margin | above minus the margin, and below 0 | above minus the margin |

    lower is higher with the opposite sign. Everything else is undecided, as is a single seed.
    """
    if effect.interval is None:
        return Verdict.undecided
    low, high = effect.interval
    margin = check.margin
    match check.expect:
        case "equal":
            is_contrary, is_within = low > margin or high < -margin, -margin < low and high < margin
            is_smaller, is_confirmed = is_within and (low > 0 or high < 0), is_within
        case "not_lower":
            is_contrary, is_confirmed = high < -margin, low > -margin
            is_smaller = is_confirmed and high < 0
        case _:
            low, high = (low, high) if check.expect == "higher" else (-high, -low)
            is_contrary, is_smaller, is_confirmed = high < 0, high < margin, low > 0
    if is_contrary:
        return Verdict.contrary
    if is_smaller:
        return Verdict.smaller
    return Verdict.confirmed if is_confirmed else Verdict.undecided


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Verdict of a claim from those of its parts.

    Equal verdicts are that of the claim. It is partly right if a part is confirmed and another one is not, undecided if
    the other ones are only undecided; without a confirmed part it is contrary if a part is.
    """
    every = set(verdicts)
    if len(every) == 1:
        return every.pop()
    if Verdict.confirmed in every and every != {Verdict.confirmed, Verdict.undecided}:
        return Verdict.partly
    return Verdict.contrary if Verdict.contrary in every else Verdict.undecided


def lacks(check: CheckConfig, effect: Effect) -> str:
    """Return the data that an undecided comparison lacks: the fewest seeds, with the present or twice the test lines.

    A projection, if mean and variances stay. Where MAX_SEEDS are too few, the effect is about the border of two
    verdicts, and says nothing about its side.
    """
    if effect.interval is None:
        return "more than one seed"
    for lines in (1, 2):
        if judge(check, effect.with_seeds(MAX_SEEDS, lines=lines)) == Verdict.undecided:
            continue
        for seeds in range(2, MAX_SEEDS + 1):
            verdict = judge(check, effect.with_seeds(seeds, lines=lines))
            if verdict != Verdict.undecided:
                return f"{seeds} seeds{' and twice the test lines' if lines > 1 else ''} ({verdict.value}, if it stays)"
    return "an effect further from the border of two verdicts"
