"""Similarity of every text of a list to every other one, for minimum Bayes risk: the n-grams of each are read once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from mtkit.evaluation.ngrams import Ints, count_ngrams
from mtkit.evaluation.tokenizer_choice import choose_tokenizer

Matrix = NDArray[np.float64]
CHAR_ORDER, WORD_ORDER, BETA = 6, 4, 2  # of sacreBLEU's chrF2 and BLEU


def pairwise_similarity(metric: Literal["chrf", "bleu"], tgt_lang: str) -> Callable[[Sequence[str]], Matrix]:
    """A function of N texts: their similarities [N, N] in percent, of a row's text to a column's as reference.

    They are those of sacreBLEU's sentence scores: chrF2 (Popović 2015, https://aclanthology.org/W15-3049/), or smoothed
    BLEU of the n-gram orders that the text has, with the tokenizer of the target language.
    """
    if metric == "chrf":
        return pairwise_chrf
    tokenizer = BLEU(tokenize=choose_tokenizer((), tgt_lang).name).tokenizer
    return lambda texts: pairwise_bleu([tokenizer(text.rstrip()) for text in texts])


def pairwise_chrf(texts: Sequence[str]) -> Matrix:
    """chrF2 of N texts with each other, [N, N] in percent; precision and recall are means over shared orders."""
    precision, recall, orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    for ngrams in count_ngrams([["".join(text.split())] for text in texts], CHAR_ORDER):
        matches, sizes = overlaps(ngrams.counts), ngrams.counts.sum(0)
        is_counted = (sizes[:, None] > 0) & (sizes > 0)  # both texts have n-grams of this order
        precision += np.divide(matches, sizes[:, None], where=is_counted, out=np.zeros_like(matches))
        recall += np.divide(matches, sizes, where=is_counted, out=np.zeros_like(matches))
        orders += is_counted
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    divisor = BETA**2 * precision + recall
    return 100 * np.divide((1 + BETA**2) * precision * recall, divisor, where=divisor > 0, out=np.zeros_like(divisor))


def pairwise_bleu(texts: Sequence[str]) -> Matrix:
    """BLEU of N texts of tokens with each other, [N, N] in percent, with exponential smoothing (Chen and Cherry 2014,
    method 3, https://aclanthology.org/W14-3346/) and the n-gram orders that a row's text has.
    """
    words, orders = [text.split() for text in texts], range(1, WORD_ORDER + 1)
    lengths = [*map(len, words)]
    matches = [overlaps(ngrams.counts) for ngrams in count_ngrams([[each] for each in words], WORD_ORDER)]

    def bleu(i: int, j: int) -> float:
        correct = [int(each[i, j]) for each in matches]
        total = [max(lengths[i] - order + 1, 0) for order in orders]
        return float(
            BLEU.compute_bleu(correct, total, lengths[i], lengths[j], smooth_method="exp", effective_order=True).score
        )

    every = range(len(texts))
    return np.array([bleu(i, j) for i in every for j in every]).reshape(len(texts), len(texts))


def overlaps(counts: Ints) -> Matrix:
    """Matches [N, N] of N texts from counts [R, N]: entry i, j is the sum of min(count in i, count in j) over n-grams.

    A minimum is the number of thresholds that both counts reach, so that the sum is one product of matrices for each
    threshold: few, since n-grams seldom repeat. Most n-grams of many samples are in one of them alone: they match
    nothing else, and are left out.
    """
    table = counts[(counts > 0).sum(1) > 1].T.astype(np.float32)
    matches = np.zeros((len(table), len(table)))
    threshold = 1
    while table.size:
        reached = (table >= threshold).astype(np.float32)
        matches += reached @ reached.T
        table = table[:, (table > threshold).any(axis=0)]
        threshold += 1
    np.fill_diagonal(matches, counts.sum(0))
    return matches
