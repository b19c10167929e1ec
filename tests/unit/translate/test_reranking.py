"""Minimum Bayes risk and reranking by a language model against their equations."""

from __future__ import annotations

import random

from mtkit.translate.reranking import MinimumBayesRisk


def test_ranking_by_expected_utility():
    rng = random.Random(0)
    texts = ["".join(rng.choices("abc", k=4)) for _ in range(20)]

    def utility(a: str, b: str) -> float:
        return sum(x == y for x, y in zip(a, b, strict=True))

    order = MinimumBayesRisk(utility).order(texts)
    expected = [sum(utility(h, ref) for ref in texts) / len(texts) for h in texts]
    assert sorted(order) == list(range(20))
    assert [expected[i] for i in order] == sorted(expected, reverse=True)
