"""Paired bootstrap against sacreBLEU's, except for systems with equal scores."""

from __future__ import annotations

import random

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from mtkit.evaluation.significance import paired_bootstrap

WORDS = ["the", "a", "dog", "cat", "man", "sees", "finds", "big", "small", "red", "house", "and", "in", "of"]


def text(seed: int, count: int = 60) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(4, 12))) for _ in range(count)]


def corrupted(lines: list[str], share: float, seed: int) -> list[str]:
    """Some words replaced by another."""
    rng = random.Random(seed)
    return [" ".join("x" if rng.random() < share else word for word in line.split()) for line in lines]


def test_p_values_equal_sacrebleu() -> None:
    ref = text(1)
    baseline, near, far = corrupted(ref, 0.2, 2), corrupted(ref, 0.21, 3), corrupted(ref, 0.5, 4)
    result = paired_bootstrap(baseline, {"near": near, "far": far}, [ref], tokenize="13a", num_samples=200)
    named = [("baseline", baseline), ("near", near), ("far", far)]
    signatures, scores = PairedTest(named, {"BLEU": BLEU()}, [ref], test_type="bs", n_samples=200)()
    assert list(result.p_values.values()) == [each.p_value for each in scores["BLEU"][1:]]
    assert result.p_values["far"] < 0.05 < result.p_values["near"]
    assert result.signature == str(signatures["BLEU"])
    assert "|bs:200|" in result.signature


def test_equal_scores_are_not_significant() -> None:
    ref = text(1, 10)
    wrong = ["x y z w"] * 10
    systems = {"same": wrong, "as bad": ["q r s t"] * 10}
    result = paired_bootstrap(wrong, systems, [ref], tokenize="13a", num_samples=10)
    assert result.p_values == {"same": 1.0, "as bad": 1.0}
