"""BLEU of short and of long sentences apart, as in fig. 2 of Bahdanau et al. 2015 (arXiv:1409.0473)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from mtkit.evaluation.config import Segmentation
from mtkit.evaluation.score import score


def names(limits: Sequence[int]) -> list[str]:
    """What the groups are called: `1-10`, `11-20`, `over 20`."""
    begins = [1, *(limit + 1 for limit in limits)]
    return [f"{begin}-{limit}" for begin, limit in zip(begins, limits, strict=False)] + [f"over {limits[-1]}"]


def lines_by_length(srcs: Sequence[str], limits: Sequence[int]) -> dict[str, list[int]]:
    """The places of each group's sentences, by the words of their sources (what spaces part).

    Args:
        srcs: all sources.
        limits: the most words of each group but the last, rising.
    """
    found: dict[str, list[int]] = {name: [] for name in names(limits)}
    groups = list(found.values())
    for place, src in enumerate(srcs):
        groups[bisect_left(limits, len(src.split()))].append(place)
    return found


def bleu_by_length(
    srcs: Sequence[str], hyps: Sequence[str], refs: Sequence[str], limits: Sequence[int], *, tokenize: Segmentation
) -> dict[str, float]:
    """BLEU of each group of sentences (see lines_by_length); an empty group has none.

    Args:
        srcs, hyps, refs: equally many lines.
        limits: the most words of each group but the last, rising.
        tokenize: how BLEU cuts text.
    """
    found = {}
    for name, places in lines_by_length(srcs, limits).items():
        hyps_there, refs_there = [hyps[place] for place in places], [refs[place] for place in places]
        scores = score(hyps_there, [refs_there], ["bleu"], tokenize=tokenize) if places else None
        if scores is not None and scores.bleu is not None:
            found[name] = scores.bleu.value
    return found
