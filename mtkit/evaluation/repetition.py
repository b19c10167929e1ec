"""How much a text repeats itself."""

from __future__ import annotations

from collections.abc import Iterable


def repetition_rate(lines: Iterable[str], *, order: int = 2) -> float:
    """Percent of the n-grams of words that stood in the same line before; 0 if there are none.

    1 - distinct n-grams / n-grams, as seq-rep-n of Welleck et al. 2020 (https://arxiv.org/abs/1908.04319, sec. 6.1),
    over the lines of a text together. A good translation of a caption repeats few pairs of words.
    """
    distinct = total = 0
    for line in lines:
        words = line.split()
        grams = [tuple(words[begin : begin + order]) for begin in range(len(words) - order + 1)]
        distinct, total = distinct + len(set(grams)), total + len(grams)
    return 100 * (1 - distinct / total) if total else 0.0
