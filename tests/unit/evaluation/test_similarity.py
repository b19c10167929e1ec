"""Similarities of all pairs against sacreBLEU's score of each pair."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU

from mtkit.evaluation.similarity import overlaps, pairwise_similarity

TEXTS = ["the dog sees a cat", "the dog saw the cat", "the the the", "a", "a b", "", " ", "c d, e.", "Größe 5", "aaaaa"]


def random_texts(seed: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices("ab c", k=rng.randint(0, 30))) for _ in range(12)]


@pytest.mark.parametrize("texts", [[], TEXTS, *map(random_texts, range(20))])
def test_similarities_are_those_of_sacrebleu(texts: list[str]) -> None:
    chrf, bleu = (pairwise_similarity(metric, "en")(texts) for metric in ("chrf", "bleu"))
    assert chrf.shape == bleu.shape == (len(texts), len(texts))
    for i, hyp in enumerate(texts):
        for j, ref in enumerate(texts):
            assert chrf[i, j] == pytest.approx(sacrebleu.sentence_chrf(hyp, [ref]).score, abs=1e-9)
            assert bleu[i, j] == pytest.approx(sacrebleu.sentence_bleu(hyp, [ref]).score, abs=1e-9)


def test_bleu_of_a_language_without_spaces_compares_characters() -> None:
    texts = ["今天天气很好", "今天天气不好"]
    similarity = pairwise_similarity("bleu", "zh")(texts)
    expected = BLEU(effective_order=True, tokenize="zh").sentence_score(texts[0], [texts[1]]).score
    assert similarity[0, 1] == pytest.approx(expected)
    assert similarity[0, 1] > 30


def test_matches_are_clipped() -> None:
    counts = np.array([[3, 2, 0], [1, 0, 0], [0, 5, 0]])  # of three n-grams in three texts
    assert np.array_equal(overlaps(counts), [[4, 2, 0], [2, 7, 0], [0, 0, 0]])
