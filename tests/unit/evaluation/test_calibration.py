"""Token accuracy and calibration error against a slow version of Guo et al. 2017, eq. 3, with a set for each bin."""

from __future__ import annotations

import json
import random

import pytest

from mtkit.evaluation.calibration import NUM_BINS, Calibration
from tests.toy.sampling import sampled


def slow_ece(confidence: list[float], is_correct: list[bool]) -> float:
    total = 0.0
    for m in range(1, NUM_BINS + 1):
        inside = [i for i, value in enumerate(confidence) if (m - 1) / NUM_BINS < value <= m / NUM_BINS]
        if inside:
            accuracy = sum(is_correct[i] for i in inside) / len(inside)
            mean = sum(confidence[i] for i in inside) / len(inside)
            total += len(inside) / len(confidence) * abs(accuracy - mean)
    return total


def predictions(seed: int, count: int = 400) -> tuple[list[float], list[bool]]:
    rng = random.Random(seed)
    confidence = [rng.random() ** rng.choice((0.1, 1, 3)) or 1.0 for _ in range(count)]
    return confidence, [rng.random() < value**2 for value in confidence]


@pytest.mark.parametrize("seed", range(sampled(20)))
def test_accuracy_and_error_are_those_of_the_definition(seed) -> None:
    confidence, is_correct = predictions(seed)
    calibration = Calibration.of(confidence, is_correct)
    assert calibration.num_tokens == len(confidence)
    assert calibration.accuracy == sum(is_correct) / len(is_correct)
    assert calibration.expected_calibration_error == pytest.approx(slow_ece(confidence, is_correct), abs=1e-12)


def test_parts_add_up() -> None:
    confidence, is_correct = predictions(1)
    parts = [Calibration.of(confidence[i : i + 7], is_correct[i : i + 7]).counts() for i in range(0, 400, 7)]
    added, whole = Calibration.sum(json.loads(json.dumps(parts))), Calibration.of(confidence, is_correct)
    assert (added.tokens, added.correct) == (whole.tokens, whole.correct)
    assert added.confidence == pytest.approx(whole.confidence)


def test_extreme_models() -> None:
    assert Calibration.of([1.0] * 9, [True] * 9).expected_calibration_error == 0
    assert Calibration.of([1.0] * 9, [False] * 9).expected_calibration_error == 1
    assert Calibration.of([0.5] * 4, [True, False] * 2).expected_calibration_error == 0
    empty = Calibration()
    assert (empty.accuracy, empty.expected_calibration_error, empty.reliability()) == (0, 0, [])


def test_limits_belong_to_the_lower_bin_and_rounding_above_1_to_the_last() -> None:
    first = Calibration.of([1 / NUM_BINS, 1e-12, 0.0], [True] * 3)
    assert first.tokens[0] == 3
    assert Calibration.of([1.0, 1.0000001], [True] * 2).tokens[-1] == 2


def test_the_table_has_the_bins_with_tokens() -> None:
    table = Calibration.of([0.9, 0.92, 0.3], [True, False, False]).reliability()
    assert [row["tokens"] for row in table] == [1, 2]
    assert table[1] == {
        "from": round(13 / 15, 4),
        "to": round(14 / 15, 4),
        "tokens": 2,
        "accuracy": 0.5,
        "confidence": pytest.approx(0.91),
    }
