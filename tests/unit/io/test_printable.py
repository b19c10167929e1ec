"""Text for people: nothing that a terminal obeys, and no line without end."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.io.printable import MAX_LINE, printable

OBEYED = [chr(code) for code in [*range(32), *range(0x7F, 0xA0)] if chr(code) not in "\t\n"]
DIRECTIONS = [chr(code) for code in range(0x110000) if unicodedata.bidirectional(chr(code)) in (
    "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"
)]  # fmt: skip


OTHERS = ["\u200e", "\u200f", "\u061c", "\u2028", "\U000e0041", "\ud800"]


@pytest.mark.parametrize("character", [*OBEYED, *DIRECTIONS, *OTHERS])
def test_each_is_an_escape(character) -> None:
    assert printable(f"a{character}b") == f"a{ascii(character)[1:-1]}b"


@given(st.text(st.characters(), max_size=60))
@settings(max_examples=300)
def test_any_text_is_printable_and_stays_readable(text) -> None:
    printed = printable(text)
    assert not any(unicodedata.category(each) == "Cc" for each in printed if each not in "\t\n")
    assert not set(printed) & {*DIRECTIONS, "\u2028", "\u2029"}
    printed.encode()  # no lone surrogate
    assert printable(printed) == printed
    harmless = [each for each in text if unicodedata.category(each)[0] in "LNPSM" or each in " \n\t\u200d\u200c"]
    assert [each for each in harmless if each not in printed] == []


@pytest.mark.parametrize("length", [MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, 30_000])
def test_long_lines_are_shortened_and_say_their_length(length) -> None:
    printed = printable(f"first\n{'x' * length}\nlast").split("\n")
    assert (printed[0], printed[2]) == ("first", "last")
    assert len(printed[1]) <= MAX_LINE + 40
    assert (f"({length:,} characters)" in printed[1]) == (length > MAX_LINE)
