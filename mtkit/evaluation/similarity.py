"""Similarity of every text of a list to every other one, for minimum Bayes risk: the n-grams of each are read once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.helpers import extract_all_char_ngrams, extract_all_word_ngrams

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
    by_order = zip(*(extract_all_char_ngrams(text, CHAR_ORDER) for text in texts), strict=True)
    precision, recall, orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    for counts in by_order:
        matches, sizes = overlaps(counts), np.array([each.total() for each in counts])
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
    ngrams = [extract_all_word_ngrams(text, 1, WORD_ORDER) for text in texts]
    lengths = [length for _, length in ngrams]
    orders = range(1, WORD_ORDER + 1)
    matches = [overlaps([{n: c for n, c in each.items() if len(n) == order} for each, _ in ngrams]) for order in orders]

    def bleu(i: int, j: int) -> float:
        correct = [int(each[i, j]) for each in matches]
        total = [max(lengths[i] - order + 1, 0) for order in orders]
        return float(
            BLEU.compute_bleu(correct, total, lengths[i], lengths[j], smooth_method="exp", effective_order=True).score
        )

    every = range(len(texts))
    return np.array([bleu(i, j) for i in every for j in every]).reshape(len(texts), len(texts))


def overlaps(counts: Sequence[dict[Any, int]]) -> Matrix:
    """Matches [N, N]: entry i, j is the sum of min(count in i, count in j) over all n-grams.

    A minimum is the number of thresholds that both counts reach, so that the sum is one product of matrices for each
    threshold: few, since n-grams seldom repeat. Most n-grams of many samples are in one of them alone: they match
    nothing else, and have no column.
    """
    texts_with = Counter(itertools.chain(*counts))
    column = {ngram: number for number, ngram in enumerate(n for n, texts in texts_with.items() if texts > 1)}
    table = np.zeros((len(counts), len(column)), np.float32)
    for row, each in zip(table, counts, strict=True):
        shared = [ngram for ngram in each if ngram in column]
        row[[column[ngram] for ngram in shared]] = [each[ngram] for ngram in shared]
    matches = np.zeros((len(counts), len(counts)))
    threshold = 1
    while table.size:
        reached = (table >= threshold).astype(np.float32)
        matches += reached @ reached.T
        table = table[:, (table > threshold).any(axis=0)]
        threshold += 1
    np.fill_diagonal(matches, [sum(each.values()) for each in counts])
    return matches
