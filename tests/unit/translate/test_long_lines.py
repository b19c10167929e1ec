"""Splitting of long lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mtkit.translate.segments import split_line


def characters(texts):
    return [len(text) for text in texts]


@given(st.text(alphabet="ab.,;!? \t\u3000\u2028。、\"')\n", max_size=80), st.integers(1, 20))
def test_parts_fit_and_their_concatenation_is_the_line(line, max_length):
    parts = split_line(line, characters, max_length)
    assert "".join(space + text for space, text in parts) == line
    assert all(len(text) <= max_length for _, text in parts)
    assert all(text == text.lstrip() for _, text in parts)


def test_lines_are_split_at_sentences_first():
    line = 'He said "No." Then,  all at once, he left! \u4f60\u597d。\u518d\u89c1。 3.14 is not'
    texts = [text for _, text in split_line(line, characters, 30)]
    assert texts == ['He said "No."', "Then,  all at once, he left!", "\u4f60\u597d。", "\u518d\u89c1。", "3.14 is not"]


def test_lines_are_not_cut_in_a_span_that_fits():
    texts = [text for _, text in split_line("look, here: https://a.b/c:d,e;f is it", characters, 20)]
    assert texts == ["look, here:", "https://a.b/c:d,e;f", "is it"]


def test_clauses_and_words_are_combined_while_they_fit():
    texts = [text for _, text in split_line("one, two, three, four five six seven eight nine", characters, 17)]
    assert texts == ["one, two, three,", "four five six", "seven eight nine"]


def test_work_is_linear_in_the_length():
    calls = []

    def count(texts):
        calls.append(sum(map(len, texts)))
        return [len(text.split()) for text in texts]

    line = " ".join(["word"] * 100_000)
    parts = split_line(line, count, 50)
    assert len(parts) == 2000
    assert sum(calls) < 8 * len(line)
