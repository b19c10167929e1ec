"""Text with inline marks: checks, splitting, joining, and places in a translation."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.text.marked import Mark, Marked, join_marked


def parse(written: str) -> Marked:
    """`a<1>b</1>c<2/>` as a text with marks."""
    text, marks = "", []
    for piece in written.replace("<", "\0<").replace(">", ">\0").split("\0"):
        if not piece.startswith("<"):
            text += piece
            continue
        role = "close" if piece[1] == "/" else "empty" if piece[-2] == "/" else "open"
        marks.append(Mark(len(text), role, piece.strip("</>")))
    return Marked(text, tuple(marks))


def write(marked: Marked) -> str:
    forms = {"open": "<{}>", "close": "</{}>", "empty": "<{}/>"}
    ends = [mark.offset for mark in marked.marks]
    pieces = [marked.text[a:b] for a, b in itertools.pairwise([0, *ends, len(marked.text)])]
    marks = [forms[mark.role].format(mark.name) for mark in marked.marks]
    return "".join(itertools.chain.from_iterable(itertools.zip_longest(pieces, marks, fillvalue="")))


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ([Mark(0, "open", "1"), Mark(1, "open", "2"), Mark(2, "close", "1"), Mark(2, "close", "2")], "closes another"),
        ([Mark(0, "open", "1")], "never closed"),
        ([Mark(0, "close", "1")], "closes another"),
        ([Mark(5, "empty", "1")], "not in 0 to 3"),
        ([Mark(2, "empty", "1"), Mark(1, "empty", "2")], "not in 2 to 3"),
        ([Mark(0, "empty", "1"), Mark(1, "empty", "1")], "occurs twice"),
    ],
)
def test_marks_that_are_no_nested_pairs_are_refused(marks: list[Mark], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Marked("abc", tuple(marks))


def test_a_pair_that_is_cut_becomes_empty_marks_and_is_joined_again() -> None:
    marked = parse("<1>A.</1> <2>B. C</2> D<3/>.")
    parts = marked.split([3, 6, len(marked.text)])
    assert [write(part) for part in parts] == ["<1>A.</1> ", "<2/>B. ", "C<2/> D<3/>."]
    assert join_marked(parts) == marked


@st.composite
def marked_texts(draw: st.DrawFn) -> Marked:
    written, names, opened = "", itertools.count(1), []
    for step in draw(st.lists(st.sampled_from(["a", "b ", "open", "close", "empty"]), max_size=30)):
        if step == "open":
            opened.append(str(next(names)))
            written += f"<{opened[-1]}>"
        elif step == "close":
            written += f"</{opened.pop()}>" if opened else ""
        else:
            written += f"<{next(names)}/>" if step == "empty" else step
    return parse(written + "".join(f"</{name}>" for name in reversed(opened)))


@given(marked_texts(), st.lists(st.integers(1, 30)))
def test_any_split_is_joined_to_the_same_text(marked: Marked, ends: list[int]) -> None:
    length = len(marked.text)
    assert join_marked(marked.split([*sorted({end for end in ends if end < length}), length])) == marked
