"""Metrics against sacreBLEU's own functions."""

from __future__ import annotations

import functools
import random

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from mtkit.evaluation import metrics, ngrams
from mtkit.evaluation.comparison import compare
from mtkit.evaluation.score import score
from mtkit.evaluation.tokenizer_choice import TokenizerChoice
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


@pytest.mark.parametrize("seed", range(sampled(100)))
def test_statistics_of_ngrams_are_those_of_sacrebleu(monkeypatch, seed) -> None:
    """Random texts, also of Python's white space, entities and several scripts; blocks and keys of any size."""
    rng = random.Random(seed)
    monkeypatch.setattr(ngrams, "MAX_BLOCK", rng.choice([1, 30, 500_000]))
    monkeypatch.setattr(ngrams, "_MAX_KEY", rng.choice([2**62, 200]))
    num_lines, num_refs, is_lower = rng.randrange(1, 20), rng.randrange(1, 4), rng.random() < 0.3

    def text() -> list[str]:
        ends = ["", "<skipped>", "&quot;", "...", " .", "-\n"]
        return ["".join(rng.choices("ab. ,-09\xa0Ä&中文\x85٣", k=rng.randrange(25))) + rng.choice(ends) for _ in lines]

    lines = range(num_lines)
    refs = [text() for _ in range(num_refs)]
    systems = [text(), refs[0], text()]
    tokenizer = TokenizerChoice(rng.choice(["13a", "none", "zh", "char", "intl"]), None)
    pairs = [
        (metrics.DetokenizedBLEU, BLEU(tokenize=tokenizer.name, lowercase=is_lower, force=True)),
        (metrics.CharacterF, CHRF(lowercase=is_lower)),
        (metrics.CharacterAndWordF, CHRF(lowercase=is_lower, word_order=2)),
    ]
    for kind, theirs in pairs:
        metric = kind(tokenizer, "en", is_lower)
        for ours, system in zip(metric.statistics(systems, refs), systems, strict=True):
            assert ours.tolist() == theirs._extract_corpus_statistics(system, refs)
        assert metric.signature() == str(theirs.get_signature())


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
