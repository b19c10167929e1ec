"""Difference between two systems trained from several seeds: effect, confidence interval and verdict.

Two sources of chance are added: the seeds of training, by sample variances, and the test sentences, by the bootstrap
(Koehn 2004, https://aclanthology.org/W04-3250). A bootstrap over three seeds alone would be too narrow, therefore the
interval is Student's, with the degrees of freedom of Satterthwaite 1946.

Models that share their training (a moving average and its last weights, two searches with one model) are compared pair
by pair. Others share no luck, although they have the same seeds: the variances of both sides are added (Welch 1947).
Three seeds give a poor estimate of a variance, therefore it is moderated by those of all other models (Smyth 2004,
https://doi.org/10.2202/1544-6115.1027).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist, fmean, variance

import numpy as np
import torch
from numpy.typing import NDArray

from mtkit.evidence.claim import CheckConfig

LEVEL = 0.95  # of the interval
MAX_PRIOR_FREEDOM = 5.0  # the fit has an infinite one where it finds equal variances; models of other studies differ


@dataclass(frozen=True)
class Spread:
    """Variance over the seeds of one mean.

    Attributes:
        seeds: number of trainings.
    """

    variance: float
    freedom: float
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float], prior: Prior | None = None) -> Spread:
        """The sample variance of a value for each seed, moderated by a prior.

        With a prior it is (f0 · v0 + f · v) / (f0 + f), which has f0 + f degrees of freedom; Smyth 2004, sec. 4.
        """
        freedom = len(values) - 1
        sample_variance = variance(values) if freedom else 0.0
        if prior is None:
            return cls(sample_variance, freedom, len(values))
        total = prior.freedom + freedom
        return cls((prior.freedom * prior.variance + freedom * sample_variance) / total, total, len(values))


@dataclass(frozen=True)
class Prior:
    """Variance that models have in general, and the degrees of freedom that this knowledge is worth."""

    variance: float
    freedom: float

    @classmethod
    def fit(cls, samples: Sequence[Sequence[float]]) -> Prior | None:
        """The prior that the sample variances of many models imply; None from fewer than two.

        Moments of the logarithm of the variances, Smyth 2004, sec. 6.2; freedom at most MAX_PRIOR_FREEDOM.

        Args:
            samples: values of each model, one for each seed; those without a variance are left out.
        """
        found = [(variance(each), (len(each) - 1) / 2) for each in samples if len(each) > 1]
        logs = [(math.log(v) - _polygamma(0, half) + math.log(half), half) for v, half in found if v > 0]
        if len(logs) < 2:
            return None
        excess = variance(each for each, _ in logs) - fmean(_polygamma(1, half) for _, half in logs)
        low, high = 1e-3, MAX_PRIOR_FREEDOM / 2  # of half the freedom; trigamma falls
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if _polygamma(1, middle) > excess else (low, middle)
        log_variance = fmean(each for each, _ in logs) + _polygamma(0, high) - math.log(high)
        return cls(math.exp(log_variance), 2 * high)


def _polygamma(order: int, value: float) -> float:
    return float(torch.polygamma(order, torch.tensor(value, dtype=torch.float64)))


@dataclass(frozen=True)
class Effect:
    """Mean difference of two systems over the seeds: mean ± t(df) · sqrt(sum of v / n + sentence_error²).

    The degrees of freedom are (sum of v / n + sentence_error²)² / (sum of (v / n)² / f).

    Attributes:
        mean: first system minus second.
        spreads: of the differences if they are pairs, otherwise of both systems.
        sentence_error: standard error due to the test sentences; 0 for metrics that are not computed from them.
    """

    mean: float
    spreads: Sequence[Spread]
    sentence_error: float

    @property
    def half(self) -> float | None:
        """Half of the width of the interval of 95%; None from a single seed."""
        if min(each.seeds for each in self.spreads) < 2:
            return None
        seeds = [(each.variance / each.seeds, each.freedom) for each in self.spreads]
        total = sum(each for each, _ in seeds) + self.sentence_error**2
        uncertain = sum(each**2 / freedom for each, freedom in seeds)
        freedom = total**2 / uncertain if uncertain else math.inf
        return student_quantile((1 + LEVEL) / 2, freedom) * math.sqrt(total)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Lower and upper end; None from a single seed."""
        half = self.half
        return None if half is None else (self.mean - half, self.mean + half)

    def with_seeds(self, seeds: int, *, lines: float = 1.0) -> Effect:
        """The effect that as many seeds would give, and `lines` times the test lines, if mean and variances stay."""
        spreads = [replace(each, freedom=each.freedom + seeds - each.seeds, seeds=seeds) for each in self.spreads]
        return Effect(self.mean, spreads, self.sentence_error / math.sqrt(lines))


def paired_effect(differences: Sequence[float], sentence_error: float = 0.0) -> Effect:
    """Effect of the difference of each pair.

    Raises:
        ValueError: no differences.
    """
    if not differences:
        raise ValueError("an effect needs at least one seed")
    return Effect(fmean(differences), [Spread.of(differences)], sentence_error)


def unpaired_effect(
    of: Sequence[float], against: Sequence[float], sentence_error: float = 0.0, prior: Prior | None = None
) -> Effect:
    """Effect of the values of two systems, of any number of seeds each.

    Raises:
        ValueError: a system has no values.
    """
    if not of or not against:
        raise ValueError("an effect needs at least one seed")
    spreads = [Spread.of(values, prior) for values in (of, against)]
    return Effect(fmean(of) - fmean(against), spreads, sentence_error)


def student_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t distribution, for a probability of 0.5 to 0.999; infinite freedom: the normal one.

    The distribution function is integrated by Simpson's rule over x = tan(angle), where the density stays smooth, and
    inverted by Newton's method from the normal quantile, which lies below: the function is concave, so that no step is
    too large. Relative error below 3e-6.
    """
    freedom = min(freedom, 1e6)
    log_norm = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)

    def density(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(log_norm - (freedom + 1) / 2 * np.log1p(x * x / freedom))

    limit, step = NormalDist().inv_cdf(probability), math.inf
    while step > 1e-9 * (1 + limit):
        x = np.tan(np.linspace(0.0, math.atan(limit), 2001))
        y = density(x) * (1 + x * x)
        width = math.atan(limit) / 2000
        below = 0.5 + width / 3 * float(y[0] + y[-1] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum())
        step = (probability - below) / float(density(x[-1:])[0])
        limit += step
    return limit


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
