"""Difference between two systems trained from several seeds: effect and confidence interval.

Two sources of chance are added: the seeds of training, by the sample variance of the paired differences, and the test
sentences, by the bootstrap (Koehn 2004, https://aclanthology.org/W04-3250). A bootstrap over three seeds alone would be
too narrow, therefore the interval is Student's, with the degrees of freedom of Satterthwaite 1946.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU, BLEUScore

from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer

Floats = NDArray[np.float64]

LEVEL = 0.95  # of the interval
NUM_SAMPLES = 1000  # bootstrap samples; sacreBLEU's default
_ORDER = 4  # longest n-grams of BLEU


@dataclass(frozen=True)
class Effect:
    """Mean difference of two systems over the seeds.

    Attributes:
        mean: first system minus second.
        low, high: confidence interval of 95%; None from a single seed.
        seed_error: standard error due to the seeds; None from a single seed.
        sentence_error: standard error due to the test sentences; 0 for metrics that are not computed from them.
    """

    mean: float
    low: float | None
    high: float | None
    seed_error: float | None
    sentence_error: float


def paired_effect(differences: Sequence[float], sentence_error: float = 0.0) -> Effect:
    """Effect and interval from the differences of each seed.

    mean ± t(df) · sqrt(s² / n + sentence_error²), with df = (s² / n + sentence_error²)² / ((s² / n)² / (n - 1)).

    Args:
        differences: first system minus second, one value for each seed.
        sentence_error: standard error of the mean due to the test sentences (see BleuContrast.effect).

    Raises:
        ValueError: no differences.
    """
    if not differences:
        raise ValueError("an effect needs at least one seed")
    count, mean = len(differences), math.fsum(differences) / len(differences)
    if count == 1:
        return Effect(mean, None, None, None, sentence_error)
    seed_variance = math.fsum((each - mean) ** 2 for each in differences) / (count - 1) / count
    variance = seed_variance + sentence_error**2
    freedom = variance**2 / (seed_variance**2 / (count - 1)) if seed_variance else math.inf
    half = student_quantile((1 + LEVEL) / 2, freedom) * math.sqrt(variance)
    return Effect(mean, mean - half, mean + half, math.sqrt(seed_variance), sentence_error)


def student_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t distribution, for a probability of 0.5 to 0.999; infinite freedom: the normal one.

    The distribution function is integrated by Simpson's rule over x = tan(angle), where the density stays smooth, and
    inverted by bisection. Error below 1e-6.
    """
    if freedom > 1e6:
        freedom = 1e6
    log_norm = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)

    def below(limit: float) -> float:
        angle = np.linspace(0.0, math.atan(limit), 4001)
        x = np.tan(angle)
        density = np.exp(log_norm - (freedom + 1) / 2 * np.log1p(x * x / freedom)) * (1 + x * x)
        step = angle[1] - angle[0]
        return 0.5 + float(
            step / 3 * (density[0] + density[-1] + 4 * density[1:-1:2].sum() + 2 * density[2:-1:2].sum())
        )

    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < probability else (low, middle)
    return (low + high) / 2


def bleu_statistics(hyps: Sequence[str], ref: Sequence[str], *, tokenize: SacrebleuTokenizer) -> Floats:
    """Sufficient statistics of BLEU for each line, [L, 10]: 4 matches, 4 totals, lengths of hypothesis and reference.

    Their sum over lines gives the corpus BLEU (see bleu_of_statistics).
    """
    metric = BLEU(tokenize=tokenize, effective_order=True)
    rows = []
    for hyp, line in zip(hyps, ref, strict=True):
        score = metric.sentence_score(hyp, [line])
        if not isinstance(score, BLEUScore):
            raise TypeError("sacreBLEU returned another score than BLEU")
        rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return np.asarray(rows, dtype=np.float64).reshape(-1, 2 * _ORDER + 2)


def bleu_of_statistics(sums: Floats) -> Floats:
    """BLEU in percent of summed statistics [..., 10] -> [...]; Papineni et al. 2002, eq. 1 to 3.

    Matches of zero are smoothed as by sacreBLEU (`smooth:exp`): the k-th zero counts as 1 / 2^k.
    """
    matches, totals = sums[..., :_ORDER], sums[..., _ORDER : 2 * _ORDER]
    is_zero = matches == 0
    smoothed = np.where(is_zero, 0.5 ** np.cumsum(is_zero, axis=-1), matches)
    log_precision = np.log(smoothed / np.maximum(totals, 1)).mean(axis=-1)
    hyp_length, ref_length = sums[..., -2], sums[..., -1]
    log_brevity = np.minimum(0.0, 1 - ref_length / np.maximum(hyp_length, 1))
    has_score = (totals > 0).all(axis=-1) & (matches.sum(axis=-1) > 0)
    return np.where(has_score, 100 * np.exp(log_brevity + log_precision), 0.0)


@dataclass(frozen=True)
class BleuContrast:
    """BLEU difference of two systems, seed by seed, on a selection of test lines.

    Attributes:
        of, against: statistics [L, 10] of each seed.
        selections: signs and lines [L]: a sum over the selections of sign · (difference on these lines).
    """

    of: Mapping[int, Floats]
    against: Mapping[int, Floats]
    selections: Sequence[tuple[float, NDArray[np.bool_]]]

    def differences(self, counts: Floats) -> Floats:
        """Difference of each seed, [R, N], where line l of sample r occurs counts[r, l] times."""
        columns = [self._difference(seed, counts) for seed in sorted(self.of)]
        return np.stack(columns, axis=-1)

    def _difference(self, seed: int, counts: Floats) -> Floats:
        total = np.zeros(len(counts))
        for sign, lines in self.selections:
            chosen = counts[:, lines]
            first = bleu_of_statistics(chosen @ self.of[seed][lines])
            second = bleu_of_statistics(chosen @ self.against[seed][lines])
            total += sign * (first - second)
        return total

    def effect(self, *, num_samples: int = NUM_SAMPLES, seed: int = 12345) -> tuple[list[float], Effect]:
        """The difference of each seed on the whole selection, and the effect.

        All seeds and both systems share the lines of a bootstrap sample.
        """
        lines = len(next(iter(self.of.values())))
        per_seed = self.differences(np.ones((1, lines)))[0].tolist()
        generator = np.random.default_rng(seed)
        counts = generator.multinomial(lines, np.full(lines, 1 / lines), size=num_samples).astype(np.float64)
        means = self.differences(counts).mean(axis=-1)
        return per_seed, paired_effect(per_seed, float(means.std(ddof=1)))
