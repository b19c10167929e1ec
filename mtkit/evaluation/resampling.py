"""Bootstrap intervals and paired significance tests on the segment statistics of sacreBLEU's metrics.

The samples are those of sacreBLEU, with its seed, and so are the intervals and p-values. Here a sample is drawn when it
is needed, once for all metrics and systems, and the sums of its statistics are matrix products: memory does not grow
with the number of samples. Sums and scores are float64; sacreBLEU's are float32, with errors in the fifth digit, and
rounded sums above 2^24.

Bootstrap: Koehn 2004, https://aclanthology.org/W04-3250. Approximate randomisation: Riezler and Maxwell 2005,
https://aclanthology.org/W05-0908.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric

SEED = 12345  # sacreBLEU's
NUM_SAMPLES = 1000  # of the bootstrap, sacreBLEU's default
NUM_TRIALS = 10_000  # of approximate randomisation, sacreBLEU's default
_BLOCK_LINES = 4096  # bounds memory: the n-grams of a line of references take about 20 kB
_BLOCK_VALUES = 1 << 24  # values of a block of samples, [samples, segments]; bounds memory
_BOOLEANS_PER_DRAW = 32  # numpy draws 32 at once; a block of trials must use all of them

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SegmentStatistics:
    """The sufficient statistics of a metric for each segment of a system.

    Attributes:
        metric: sacreBLEU's metric.
        values: [N, K] statistics of the N segments.
    """

    metric: Metric
    values: Array

    def score(self, segments: NDArray[np.int64] | slice = slice(None)) -> Any:
        """sacreBLEU's score of some segments, by default of all."""
        return self.metric._aggregate_and_compute([self.values[segments].sum(0).tolist()])

    def scores(self, sums: Array) -> Array:
        """Scores in percent of sets of segments, given the sums of their statistics: [sets, K] -> [sets]."""
        # sacreBLEU computes in the type of its input: float32 gives numpy scalars among Python's, and rounded scores
        return np.array([self.metric._aggregate_and_compute([row]).score for row in sums.tolist()], dtype=np.float64)


def segment_statistics(
    metric: Metric,
    systems: Sequence[Sequence[str]],
    refs: Sequence[Sequence[str]],
    prepare: Callable[[Sequence[str]], list[str]] = list,
) -> list[SegmentStatistics]:
    """The statistics of the translations of each system; the n-grams of a reference are counted once for all systems.

    Args:
        metric: sacreBLEU's metric, without references.
        systems: translations of each system.
        refs: one or more references, each with the same number of lines.
        prepare: applied to lines before the metric sees them.
    """
    blocks: list[list[Array]] = [[] for _ in systems]
    for start in range(0, len(refs[0]), _BLOCK_LINES):
        block = slice(start, start + _BLOCK_LINES)
        metric._ref_cache = metric._cache_references([prepare(ref[block]) for ref in refs])
        for values, hyps in zip(blocks, systems, strict=True):
            statistics = metric._extract_corpus_statistics(prepare(hyps[block]), None)
            values.append(np.array(statistics, dtype=np.float64))
    metric._ref_cache = None
    return [SegmentStatistics(metric, np.concatenate(values)) for values in blocks]


def bootstrap_scores(statistics: Sequence[SegmentStatistics], num_samples: int = NUM_SAMPLES) -> list[Array]:
    """Scores of samples of the segments, taken with replacement; the same samples for all statistics.

    Args:
        statistics: of metrics and systems, each with N segments.
        num_samples: number of samples.

    Returns:
        The scores of each metric and system, [num_samples] in percent.
    """
    columns = np.concatenate([each.values for each in statistics], axis=1)  # [N, sum of all K]
    sums = np.concatenate([*_bootstrap_sums(columns, num_samples)])
    return [each.scores(part) for each, part in zip(statistics, _split(sums, statistics), strict=True)]


def _bootstrap_sums(columns: Array, num_samples: int) -> Iterator[Array]:
    """Yield the sums over samples, [samples of a block, K]."""
    rng = np.random.default_rng(SEED)
    num_segments = len(columns)
    size = max(1, _BLOCK_VALUES // num_segments)
    for first in range(0, num_samples, size):
        counts = np.empty((min(size, num_samples - first), num_segments))
        for row in counts:
            row[:] = np.bincount(rng.choice(num_segments, size=num_segments), minlength=num_segments)
        yield counts @ columns


def paired_bootstrap_p_value(baseline: Array, system: Array, baseline_score: float, system_score: float) -> float:
    """p-value of the difference between two systems.

    Args:
        baseline: scores of the baseline on the samples of `bootstrap_scores`.
        system: those of the system, on the same samples.
        baseline_score: score of the baseline on all segments.
        system_score: that of the system.

    Returns:
        The p-value; 1 for equal scores, which sacreBLEU's test would treat as a significant difference.
    """
    difference = abs(baseline_score - system_score)
    differences = np.abs(system - baseline)
    return _p_value(differences - differences.mean(), difference)


def randomisation_p_values(
    baseline: Sequence[SegmentStatistics], system: Sequence[SegmentStatistics], num_trials: int = NUM_TRIALS
) -> list[float]:
    """p-values of approximate randomisation: segments of two systems are exchanged at random.

    Args:
        baseline: statistics of the baseline, one entry for each metric.
        system: those of the system, in the same order.
        num_trials: number of trials.

    Returns:
        One p-value for each metric; 1 for equal scores.
    """
    columns = [np.concatenate([each.values for each in side], axis=1) for side in (baseline, system)]
    moved, total = columns[0] - columns[1], columns[0].sum(0) + columns[1].sum(0)
    rng = np.random.default_rng(SEED)
    size = max(1, _BLOCK_VALUES // (_BOOLEANS_PER_DRAW * len(moved))) * _BOOLEANS_PER_DRAW
    first: list[Array] = []
    for start in range(0, num_trials, size):
        takes_baseline = rng.integers(2, size=(min(size, num_trials - start), len(moved)), dtype=bool)
        first.append(takes_baseline.astype(np.float64) @ moved + columns[1].sum(0))
    sums = np.concatenate(first)
    p_values = []
    for each, other, one, two in zip(
        baseline, system, _split(sums, baseline), _split(total - sums, baseline), strict=True
    ):
        difference = abs(each.score().score - other.score().score)
        p_values.append(_p_value(np.abs(each.scores(one) - other.scores(two)), difference))
    return p_values


def interval(samples: Array) -> tuple[float, float]:
    """Mean of samples, and half of the width of their central 95%."""
    cut = len(samples) // 40
    ordered = np.sort(samples)
    return float(samples.mean()), float(ordered[-1 - cut] - ordered[cut]) / 2


def _split(sums: Array, statistics: Sequence[SegmentStatistics]) -> list[Array]:
    ends = np.cumsum([each.values.shape[1] for each in statistics])
    return np.split(sums, ends[:-1].tolist(), axis=1)


def _p_value(differences: Array, difference: float) -> float:
    if not difference:
        return 1.0
    return (int((differences > difference).sum()) + 1) / (len(differences) + 1)
