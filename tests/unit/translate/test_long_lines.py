"""Cutting long lines, finding loops, aligning words, choosing by Bayes risk."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.translate.alignment import links_of, word_pairs, words_of
from mtkit.translate.long_lines import split_line
from mtkit.translate.minimum_bayes_risk import minimum_bayes_risk
from mtkit.translate.repetition import LEAST_TURNS, has_loop, most_turns


def characters(texts):
    return [len(text) for text in texts]


@given(st.text(alphabet="ab.,;!? \t\u3000\u2028。、\"')\n", max_size=80), st.integers(1, 20))
def test_nothing_is_lost_and_nothing_is_too_long(line, longest):
    parts = split_line(line, characters, longest)
    assert "".join(space + text for space, text in parts) == line
    assert all(len(text) <= longest for _, text in parts)
    assert all(text == text.lstrip() for _, text in parts)


def test_sentences_come_first():
    line = 'He said "No." Then,  all at once, he left! \u4f60\u597d。\u518d\u89c1。 3.14 is not'
    texts = [text for _, text in split_line(line, characters, 30)]
    assert texts == ['He said "No."', "Then,  all at once, he left!", "\u4f60\u597d。", "\u518d\u89c1。", "3.14 is not"]


def test_clauses_and_words_are_taken_together_while_they_fit():
    texts = [text for _, text in split_line("one, two, three, four five six seven eight nine", characters, 17)]
    assert texts == ["one, two, three,", "four five six", "seven eight nine"]


def test_a_line_of_100_000_words_takes_linear_work():
    calls = []

    def count(texts):
        calls.append(sum(map(len, texts)))
        return [len(text.split()) for text in texts]

    line = " ".join(["word"] * 100_000)
    parts = split_line(line, count, 50)
    assert len(parts) == 2000
    assert sum(calls) < 8 * len(line)


@pytest.mark.parametrize(
    ("tokens", "source", "loop"),
    [
        ([7] * 12, [1, 2, 3], True),
        ([7, 8, 9] * 4, [1, 2, 3], True),
        ([1, 2, *([7, 8, 9] * 5), 4], [1, 2, 3], True),
        ([7, 8, 9] * 3, [1, 2, 3], False),
        ([7] * 12, [5] * 12, False),
        ([], [], False),
        (list(range(100)), [1], False),
    ],
)
def test_loops(tokens, source, loop):
    assert has_loop(tokens, source) == loop


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(4, 7), min_size=1, max_size=5), st.integers(1, 8))
def test_no_loop_is_passed_over(before, stretch, turns):
    tokens = before + stretch * turns
    assert has_loop(tokens, []) == (most_turns(tokens) >= LEAST_TURNS)


def test_words():
    pieces = ["▁The", "▁d", "og", "▁", "▁s", "ees\u3000it", ".", "▁"]
    assert words_of(pieces) == [0, 1, 1, -1, 2, 2, 3, -1]
    attention = torch.tensor([[0.9, 0.1, 0.0], [0.1, 0.2, 0.7], [0.1, 0.8, 0.1]])
    links = links_of(attention, 2)
    assert links == [(0, 0), (1, 1), (1, 2)]
    assert word_pairs(links, ["▁a", "b"], ["▁x", "▁y", "z"]) == ((0, 0), (0, 1))
    assert links_of(attention, 0) == []


def test_minimum_bayes_risk_is_that_of_its_equation():
    rng = random.Random(0)
    texts = ["".join(rng.choices("abc", k=4)) for _ in range(20)]

    def utility(a: str, b: str) -> float:
        return sum(x == y for x, y in zip(a, b, strict=True))

    order = minimum_bayes_risk(utility)(texts)
    expected = [sum(utility(h, ref) for ref in texts) / len(texts) for h in texts]
    assert sorted(order) == list(range(20))
    assert [expected[i] for i in order] == sorted(expected, reverse=True)
