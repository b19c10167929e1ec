"""Sentence-level similarity of translations, by a metric of sacreBLEU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


def sentence_similarity(metric: Literal["chrf", "bleu"]) -> Callable[[str, str], float]:
    """A function (hypothesis, reference) -> chrF2 or smoothed BLEU in percent.

    BLEU uses the n-gram orders that the hypothesis has (sacreBLEU's effective_order).
    """
    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True)

    def similarity(hyp: str, ref: str) -> float:
        return float(scorer.sentence_score(hyp, [ref]).score)

    return similarity
