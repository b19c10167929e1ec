"""Sentence-level similarity of translations, by a metric of sacreBLEU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from mtkit.evaluation.tokenizer_choice import choose_tokenizer


def sentence_similarity(metric: Literal["chrf", "bleu"], tgt_lang: str) -> Callable[[str, str], float]:
    """A function (hypothesis, reference) -> chrF2 or smoothed BLEU in percent.

    BLEU uses the n-gram orders that the hypothesis has (sacreBLEU's effective_order), and the tokenizer of the target
    language.
    """
    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True, tokenize=choose_tokenizer((), tgt_lang).name)

    def similarity(hyp: str, ref: str) -> float:
        return float(scorer.sentence_score(hyp, [ref]).score)

    return similarity
