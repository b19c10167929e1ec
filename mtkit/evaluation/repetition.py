"""Repetition within lines, a sign of degenerate translations."""

from __future__ import annotations

from collections.abc import Iterable


def repetition_rate(lines: Iterable[str], *, order: int = 2) -> float:
    """Percentage of word n-grams that occurred earlier in the same line; 0 for a text without n-grams.

    1 - distinct n-grams / n-grams, as seq-rep-n of Welleck et al. 2020 (https://arxiv.org/abs/1908.04319, sec. 6.1),
    summed over all lines. A good translation of a caption repeats few word bigrams.
    """
    distinct = total = 0
    for line in lines:
        words = line.split()
        grams = [tuple(words[start : start + order]) for start in range(len(words) - order + 1)]
        distinct, total = distinct + len(set(grams)), total + len(grams)
    return 100 * (1 - distinct / total) if total else 0.0
