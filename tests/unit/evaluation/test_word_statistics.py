"""Repetition rate and F1 of rare words against counts by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from mtkit.evaluation.word_statistics import rare_word_f1, repetition_rate, word_counts

TRAINING = Counter({"der": 900, "Hund": 6, "Kater": 5, "Ziege": 1})


def test_words_are_those_of_the_bleu_tokenizer() -> None:
    assert word_counts(["Der Hund, der Hund."]) == {"Der": 1, "Hund": 2, ",": 1, "der": 1, ".": 1}


@pytest.mark.parametrize(
    ("hyps", "refs", "expected"),
    [
        (["der Kater"], ["der Kater"], 100.0),
        (["der Hund"], ["der Hund"], 100.0),  # no rare word on either side
        (["der Hund"], ["der Kater"], 0.0),  # one wanted, none proposed
        (["Kater Kater"], ["Kater der"], 200 / 3),  # clipped: precision 1/2, recall 1
        (["Kater", "Ziege"], ["Ziege", "Kater"], 0.0),  # other lines do not count
        (["Zebu Ziege", "der"], ["Zebu der", "Kater"], 50.0),  # unseen words are rare; precision 1/2, recall 1/2
    ],
)
def test_values(hyps: list[str], refs: list[str], expected: float) -> None:
    assert rare_word_f1(hyps, refs, TRAINING) == pytest.approx(expected)


def test_unseen_words_alone() -> None:
    hyps, refs = ["Zebu Ziege", "Emu", "Kater"], ["Zebu der", "Gnu Ziege", "Kater"]
    assert rare_word_f1(hyps, refs, TRAINING, max_count=0) == pytest.approx(50.0)  # Zebu of Zebu, Emu and Zebu, Gnu
    assert rare_word_f1(["Kater"], ["Ziege"], TRAINING, max_count=0) == 100.0  # none on either side


@pytest.mark.parametrize(
    ("lines", "rate"),
    [([], 0.0), (["one"], 0.0), (["a b a b"], 100 / 3), (["a b", "a b"], 0.0), (["a a a a a", "b c"], 60.0)],
)
def test_repetition_is_counted_within_lines(lines: list[str], rate: float) -> None:
    assert repetition_rate(lines) == pytest.approx(rate)
