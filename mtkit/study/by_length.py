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


def bleu_by_length(
    srcs: Sequence[str], hyps: Sequence[str], refs: Sequence[str], limits: Sequence[int], *, tokenize: Segmentation
) -> dict[str, float]:
    """BLEU of each group of sentences, by the words of their sources (what spaces part); an empty group has none.

    Args:
        srcs, hyps, refs: equally many lines.
        limits: the most words of each group but the last, rising.
        tokenize: how BLEU cuts text.
    """
    groups: list[list[tuple[str, str]]] = [[] for _ in range(len(limits) + 1)]
    for src, hyp, ref in zip(srcs, hyps, refs, strict=True):
        groups[bisect_left(limits, len(src.split()))].append((hyp, ref))
    found = {}
    for name, pairs in zip(names(limits), groups, strict=True):
        hyps_there, refs_there = [hyp for hyp, _ in pairs], [ref for _, ref in pairs]
        scores = score(hyps_there, [refs_there], ["bleu"], tokenize=tokenize) if pairs else None
        if scores is not None and scores.bleu is not None:
            found[name] = scores.bleu.value
    return found
