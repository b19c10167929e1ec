"""How alike two translations of a sentence are, by a metric of sacreBLEU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


def likeness(metric: Literal["chrf", "bleu"]) -> Callable[[str, str], float]:
    """(hypothesis, reference) -> chrF2, or BLEU of the n-gram orders that there are and smoothed, in percent."""
    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True)

    def of(hyp: str, ref: str) -> float:
        return float(scorer.sentence_score(hyp, [ref]).score)

    return of
