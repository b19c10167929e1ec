"""Marks in a translation: around the words that align, nested in any case, and said to be a guess where they are."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.text.marked import Mark, Marked, place_marks
from tests.toy.sampling import seeds
from tests.unit.text.test_marked import marked_texts, parse, write


@pytest.mark.parametrize(
    ("source", "target", "links", "expected", "is_certain"),
    [
        ("<1>The dog</1>", "Der Hund", [], "<1>Der Hund</1>", True),
        ("The <1>old</1> dog", "Der alte Hund", [(0, 0), (1, 1), (2, 2)], "Der <1>alte</1> Hund", True),
        ("The <1>old</1> dog", "Der alte Hund", [], "Der <1>alte</1> Hund", False),
        ("a <1>b</1> <2>c</2>", "C B A", [(0, 2), (1, 1), (2, 0)], "<2>C</2> <1>B</1> A", True),
        ("<1>a <2>b</2></1> c", "C B A", [(0, 2), (1, 1), (2, 0)], "C <1><2>B</2> A</1>", True),
        ("a <1/>b c", "B C A", [(0, 2), (1, 0), (2, 1)], "<1/>B C A", True),
        ("a b<1/>", "B A", [], "B A<1/>", True),
        ("a b<1/>. c", "C B. A", [(0, 2), (1, 1), (2, 0)], "C B<1/>. A", True),
        ("a b<1/> c", "C A B", [(0, 1), (1, 2), (2, 0)], "C A B<1/>", True),
        ("a b<1/> c", "A B. C", [(0, 0), (2, 2)], "A B.<1/> C", True),
        ("a b<1/>. c", "A B. C", [(0, 0), (2, 2)], "A B<1/>. C", False),
        (
            "H<1>2</1>O (<2>Ctrl</2>+<3>E</3>)",
            "(Ctrl+E) H2O",
            [(0, 1), (1, 0)],
            "(<2>Ctrl</2>+<3>E</3>) H<1>2</1>O",
            True,
        ),
        ("a dog<1>2</1> b", "A Hund2 B", [(0, 0), (1, 1), (2, 2)], "A <1>Hund2</1> B", False),
        ("<1/> a", " A", [(0, 0)], "<1/> A", True),
        ("<1>a b</1> c", "A C B", [(0, 0), (1, 2), (2, 1)], "<1>A C B</1>", False),
        ("<1>a</1> <2>b</2>", "A B", [(0, 0), (0, 1), (1, 1)], "<1>A</1> <2>B</2>", False),
        ("<1>a</1> b c", "A B C A2", [(0, 0), (0, 3), (1, 1), (2, 2)], "<1>A</1> B C A2", False),
        ("<1>a b</1> c d", "A C D B", [(0, 0), (1, 3), (2, 1), (3, 2)], "<1>A</1> C D B", False),
        ("<1>a</1> b", "A. B", [(0, 0), (1, 1)], "<1>A.</1> B", True),
        ("<1>a</1> b", "B A.", [(0, 1), (1, 0)], "B <1>A</1>.", True),
        ("<1>a</1>. b", "A, B.", [(0, 0), (1, 1)], "<1>A</1>, B.", True),
        ('a "<1>b</1><2>, …</2>" c', 'A "B, …" C', [(0, 0), (1, 1), (2, 2), (3, 3)], 'A "<1>B</1><2>, …</2>" C', True),
        ('a "<1>b</1><2>, …</2>" c', 'A "X" C', [(0, 0), (1, 1), (3, 2)], 'A "<1>X"</1><2></2> C', True),
        ("a x<1>y z</1>v b", "xyz XY ZV A", [(0, 3), (1, 1), (2, 2)], "xyz X<1>Y Z</1>V A", True),
        ("a <1>b</1> <2>c</2> <3>d</3>", "x", [(1, 0)], "<1>x</1><2></2><3></3>", False),
        ("a <1>b</1> <2>c</2> d", "xy", [(1, 0)], "<1>x</1><2>y</2>", False),
    ],
)
def test_marks_stand_around_the_words_that_align(source, target, links, expected, is_certain):
    placed, certain = place_marks(parse(source), target, links)
    assert (write(placed), certain) == (expected, is_certain)


SEEDS = seeds(20, 200)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mark_of_a_text_whose_words_keep_their_order_stays_beside_the_signs_that_it_touches(seed: int) -> None:
    rng = random.Random(seed)
    words = [
        rng.choice(["", "(", "“"]) + rng.choice(["the", "dog", "man's", "12"]) + rng.choice(["", ".", "),", " …", "?!"])
        for _ in range(rng.randint(1, 9))
    ]
    text = " " * rng.randint(0, 1) + " ".join(words) + " " * rng.randint(0, 1)
    letters = [char.isalnum() or char == "'" for char in f" {text} "]
    offset = rng.choice([i for i in range(len(text) + 1) if not (letters[i] and letters[i + 1])])
    source = Marked(text, (Mark(offset, "empty", "1"),))
    links = [(i, i) for i in range(len(text.split()))]
    placed, is_certain = place_marks(source, text.upper(), links)
    touches = (text[offset - 1 : offset] + text[offset : offset + 1]).strip()
    assert is_certain
    assert placed.marks == source.marks or not touches


@given(marked_texts(), st.text(alphabet="xy ", max_size=20), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))))
def test_a_translation_has_every_mark_nested_whatever_the_alignment(marked: Marked, target, links):
    placed, _ = place_marks(marked, target, links)  # Marked refuses marks that are not nested
    assert placed.text == target
    assert sorted((m.role, m.name) for m in placed.marks) == sorted((m.role, m.name) for m in marked.marks)


@given(
    marked_texts(), st.text(alphabet="xyzé. ", max_size=30), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)))
)
def test_a_pair_with_words_keeps_one_if_the_translation_has_as_many_letters_as_pairs(marked: Marked, target, links):
    for in_order in (False, True):
        placed, _ = place_marks(marked, target, links, in_order=in_order)
        check_pairs(marked, placed, target)
    assert [(m.role, m.name) for m in placed.marks] == [(m.role, m.name) for m in marked.marks]


def check_pairs(marked: Marked, placed: Marked, target: str) -> None:
    if sum(map(str.isalnum, target)) >= sum(mark.role == "open" for mark in marked.marks):
        assert {name for name, text in contents(marked) if has_letters(text)} <= {
            name for name, text in contents(placed) if has_letters(text)
        }


def contents(marked: Marked) -> list[tuple[str, str]]:
    """Name and text of each pair."""
    starts = {mark.name: mark.offset for mark in marked.marks if mark.role == "open"}
    ends = {mark.name: mark.offset for mark in marked.marks if mark.role == "close"}
    return [(name, marked.text[start : ends[name]]) for name, start in starts.items()]


def has_letters(text: str) -> bool:
    return any(map(str.isalnum, text))


def test_thousands_of_marks_may_be_nested():
    marks = [*(Mark(0, "open", str(i)) for i in range(3000)), *(Mark(1, "close", str(i)) for i in range(2999, -1, -1))]
    placed, is_certain = place_marks(Marked("a", tuple(marks)), "b", [(0, 0)])
    assert (placed, is_certain) == (Marked("b", tuple(marks)), True)
