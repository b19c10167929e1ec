"""Metrics against sacreBLEU's own functions."""

from __future__ import annotations

import functools
import random

import pytest
from sacrebleu.metrics.ter import TER

from mtkit.evaluation import metrics
from mtkit.evaluation.comparison import compare
from mtkit.evaluation.score import score
from tests.toy.sampling import sampled


@pytest.mark.parametrize("seed", range(sampled(200)))
def test_long_lines_are_compared_by_word_edits_without_shifts(monkeypatch, seed) -> None:
    monkeypatch.setattr(metrics, "MAX_SHIFTED_WORDS", 4)
    rng = random.Random(seed)
    hyps, *refs = ([" ".join(rng.choices("abcd", k=rng.randint(0, 9))) for _ in "abc"] for _ in range(2 + seed % 3))
    (statistics,) = metrics.SacrebleuMetric(metrics.BoundedTER()).statistics([hyps], refs)
    for values, hyp, *of_line in zip(statistics, hyps, *refs, strict=True):
        words = [each.split() for each in (hyp, *of_line)]
        theirs = TER().corpus_score([hyp], [[each] for each in of_line])
        if max(map(len, words)) <= 4:
            assert values.tolist() == [theirs.num_edits, theirs.ref_length]
        else:
            assert values[0] == min(slow_distance(tuple(words[0]), tuple(each)) for each in words[1:])
            assert values[1] == pytest.approx(theirs.ref_length)


@functools.cache
def slow_distance(one: tuple[str, ...], two: tuple[str, ...]) -> int:
    """Levenshtein's definition, by recursion."""
    if not one or not two:
        return len(one) + len(two)
    return min(
        slow_distance(one[1:], two) + 1,
        slow_distance(one, two[1:]) + 1,
        slow_distance(one[1:], two[1:]) + (one[0] != two[0]),
    )


def test_lines_of_thousands_of_words_end_and_are_said() -> None:
    ref = [" ".join(f"w{number % 37}" for number in range(1500))] * 3
    hyp = [" ".join(reversed(ref[0].split())), ref[0], "w1"]
    for scores in (score(hyp, [ref], ["ter"]), compare({"a": hyp}, [ref], ["ter"]).scores["a"]):
        assert scores.ter is not None
        assert scores.ter.value > 50
        assert any("TER: lines of more than 200 words are compared without shifts" in note for note in scores.notes)
    assert not any("shifts" in note for note in score(["a b"], [["a c"]], ["ter"]).notes)
