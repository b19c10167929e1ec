"""Bootstrap intervals and paired significance tests on the statistics of segments.

The samples are those of sacreBLEU, with its seed. Here a sample is drawn when it is needed, once for all metrics and
systems, and the sums of its statistics are matrix products: memory does not grow with the number of samples. Sums and
scores are float64; sacreBLEU's are float32, with errors in the fifth digit, and rounded sums above 2^24. The p-values
are not sacreBLEU's, for the reasons that stand beside them.

Bootstrap: Koehn 2004, https://aclanthology.org/W04-3250. Approximate randomisation: Riezler and Maxwell 2005,
https://aclanthology.org/W05-0908.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mtkit.evaluation.metrics import Array, Metric

SEED = 12345  # sacreBLEU's
NUM_SAMPLES = 1000  # of the bootstrap, sacreBLEU's default
NUM_TRIALS = 10_000  # of approximate randomisation, sacreBLEU's default
EXACT_LINES = 12  # differing segments whose 4,096 exchanges are all tried
_BLOCK_VALUES = 1 << 24  # values of a block of samples, [samples, segments]; bounds memory
_BOOLEANS_PER_DRAW = 32  # numpy draws 32 at once; a block of trials must use all of them
_ROUNDING = 1e-9  # percent; two sums of the same segments in another order differ by about 1e-13


@dataclass(frozen=True)
class SegmentStatistics:
    """The sufficient statistics of a metric for each segment of a system.

    Attributes:
        values: [N, K] statistics of the N segments.
    """

    metric: Metric
    values: Array

    def score(self, segments: NDArray[np.int64] | slice = slice(None)) -> float:
        """Score in percent of some segments, by default of all."""
        return self.metric.score(self.values[segments].sum(0).tolist())

    def line_scores(self) -> list[float]:
        """Score in percent of each segment, as sacreBLEU's sentence scores."""
        return [self.metric.line_score(row) for row in self.values.tolist()]

    def scores(self, sums: Array) -> Array:
        """Scores in percent of sets of segments, given the sums of their statistics: [sets, K] -> [sets]."""
        # sacreBLEU computes in the type of its input: float32 gives numpy scalars among Python's, and rounded scores
        return np.array([self.metric.score(row) for row in sums.tolist()], dtype=np.float64)


def bootstrap_scores(statistics: Sequence[SegmentStatistics], num_samples: int = NUM_SAMPLES) -> list[Array]:
    """Scores of samples of the segments, taken with replacement; the same samples for all statistics.

    Args:
        statistics: of metrics and systems, each with N segments.
        num_samples: number of samples.

    Returns:
        The scores of each metric and system, [num_samples] in percent.
    """
    columns = np.concatenate([each.values for each in statistics], axis=1)  # [N, sum of all K]
    rng = np.random.default_rng(SEED)
    num_segments = len(columns)
    size = max(1, _BLOCK_VALUES // num_segments)
    blocks = []
    for first in range(0, num_samples, size):
        counts = np.empty((min(size, num_samples - first), num_segments))
        for row in counts:
            row[:] = np.bincount(rng.choice(num_segments, size=num_segments), minlength=num_segments)
        blocks.append(counts @ columns)  # sums over samples [samples of a block, sum of all K]
    ends = np.cumsum([each.values.shape[1] for each in statistics])
    sums = np.split(np.concatenate(blocks), ends[:-1].tolist(), axis=1)
    return [each.scores(part) for each, part in zip(statistics, sums, strict=True)]


def paired_bootstrap_p_value(baseline: Array, system: Array, difference: float) -> float:
    """Two-sided p-value of the difference between two systems, by shifting its bootstrap distribution to 0.

    The share of samples whose difference is at least as far from the mean difference as the observed one from 0. Two
    equally good systems reach p < 0.05 in about 5 of 100 test sets. Riezler and Maxwell 2005, fig. 2, and sacreBLEU
    shift the absolute differences instead, which counts one tail: they reach it in about 12.

    Args:
        baseline: scores of the baseline on the samples of `bootstrap_scores`.
        system: those of the system, on the same samples.
    """
    differences = system - baseline
    return (_at_least(differences - differences.mean(), difference) + 1) / (len(differences) + 1)


def randomisation_p_value(
    baseline: SegmentStatistics, system: SegmentStatistics, num_trials: int = NUM_TRIALS
) -> float:
    """p-value of paired randomisation: the segments of two systems are exchanged.

    Every exchange is tried if at most `EXACT_LINES` segments differ in the metric, else `num_trials` random ones. A
    tie counts: an exchange without effect is no evidence of a difference. sacreBLEU counts none, and so gives the
    lowest p-value to systems that differ in one segment.

    Args:
        num_trials: number of random exchanges.
    """
    moved = baseline.values - system.values
    differing = moved[moved.any(1)]
    is_exact = len(differing) <= EXACT_LINES
    if is_exact:
        exchanged = np.zeros((1, moved.shape[1]))  # sums of each subset of the n differing rows, [2^n, K]
        for row in differing:
            exchanged = np.concatenate([exchanged, exchanged + row])
    else:  # sums of a random half of all rows, [trials, K]; the choices are sacreBLEU's
        rng = np.random.default_rng(SEED)
        size = max(1, _BLOCK_VALUES // (_BOOLEANS_PER_DRAW * len(moved))) * _BOOLEANS_PER_DRAW
        blocks = []
        for start in range(0, num_trials, size):
            is_moved = rng.integers(2, size=(min(size, num_trials - start), len(moved)), dtype=bool)
            blocks.append(is_moved.astype(np.float64) @ moved)
        exchanged = np.concatenate(blocks)
    first = exchanged + system.values.sum(0)
    second = baseline.values.sum(0) + system.values.sum(0) - first
    differences = baseline.scores(first) - system.scores(second)
    count = _at_least(differences, baseline.score() - system.score())
    added = 0 if is_exact else 1  # the texts as they are; among all exchanges they occur already
    return (count + added) / (len(differences) + added)


def _at_least(differences: Array, observed: float) -> int:
    """Number of differences as large as the observed one, up to rounding."""
    return int((np.abs(differences) >= abs(observed) - _ROUNDING).sum())


def interval(samples: Array) -> tuple[float, float]:
    """Mean of samples, and half of the width of their central 95%."""
    cut = len(samples) // 40
    ordered = np.sort(samples)
    return float(samples.mean()), float(ordered[-1 - cut] - ordered[cut]) / 2
