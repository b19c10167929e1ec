"""BLEU by source length, as in fig. 2 of Bahdanau et al. 2015 (arXiv:1409.0473)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from mtkit.evaluation.score import score
from mtkit.evaluation.tokenizer_choice import SacrebleuTokenizer


def group_names(limits: Sequence[int]) -> list[str]:
    """Names of the length groups: `1-10`, `11-20`, `over 20`."""
    starts = [1, *(limit + 1 for limit in limits)]
    return [f"{start}-{limit}" for start, limit in zip(starts, limits, strict=False)] + [f"over {limits[-1]}"]


def lines_by_length(srcs: Sequence[str], limits: Sequence[int]) -> dict[str, list[int]]:
    """Line indices of each length group; the length of a source is its number of whitespace-separated words.

    Args:
        limits: maximum length of each group except the last, ascending.
    """
    by_name: dict[str, list[int]] = {name: [] for name in group_names(limits)}
    groups = list(by_name.values())
    for index, src in enumerate(srcs):
        groups[bisect_left(limits, len(src.split()))].append(index)
    return by_name


def bleu_of_length_groups(
    srcs: Sequence[str],
    hyps: Sequence[str],
    refs: Sequence[str],
    limits: Sequence[int],
    *,
    tokenize: SacrebleuTokenizer,
) -> dict[str, float]:
    """BLEU of each length group (see lines_by_length); empty groups are left out.

    Args:
        srcs, hyps, refs: equally many lines.
        limits: maximum length of each group except the last, ascending.
    """
    bleu = {}
    for name, indices in lines_by_length(srcs, limits).items():
        group_hyps, group_refs = [hyps[index] for index in indices], [refs[index] for index in indices]
        scores = score(group_hyps, [group_refs], ["bleu"], tokenize=tokenize) if indices else None
        if scores is not None and scores.bleu is not None:
            bleu[name] = scores.bleu.value
    return bleu
