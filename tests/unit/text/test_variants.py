"""Variants of form, and lines in capitals."""

from __future__ import annotations

import pytest

from mtkit.text.spans import is_in_capitals, lower_capitals, pair_variant, to_capitals


def variants(src: str, tgt: str) -> set[tuple[str, str]]:
    return {pair_variant(src, tgt, bits) for bits in range(60)}


def test_all_variants_of_a_pair():
    src, tgt = 'The dog says "no".', "Der Hund sagt „nein“."
    assert variants(src, tgt) == {
        ('the dog says "no".', tgt),
        ('The Dog Says "No".', tgt),
        ("The dog says “no”.", tgt),
        ('The dog says "no"', "Der Hund sagt „nein“"),
    }


def test_typographic_quotes_become_straight_and_straight_ones_typographic():
    assert ('It\'s "x"', "t") in variants("It’s “x”", "t")
    assert ("It’s (“x”)", "t") in variants('It\'s ("x")', "t")


def test_an_apostrophe_begins_no_word():
    assert ("Don't Go", "t") in variants("Don't go", "t")


@pytest.mark.parametrize(("src", "tgt"), [("Wait ...", "Warte ..."), ("Who?", "Wer?"), ("A dog.", "Ein Hund")])
def test_a_final_stop_is_dropped_on_both_sides_or_none(src, tgt):
    assert all(one[1] == tgt for one in variants(src, tgt))


def test_a_pair_without_variants_stays():
    assert variants("犬", "狗") == {("犬", "狗")}


def test_spans_stay_as_they_are():
    src = "Read %1$s at HTTPS://x.org/A or {NAME} in FOO_BAR."
    for changed, _ in variants(src, src):
        assert all(each in changed for each in ("HTTPS://x.org/A", "{NAME}", "FOO_BAR"))
    assert to_capitals("Lies https://x.org/a, {name}!") == "LIES https://x.org/a, {name}!"


@pytest.mark.parametrize(
    "line", ["WILL EMMA COME?", "STOPP!", "SAY %s NOW", "DER SCHÖNE HUND", "GO THERE https://x.org/a"]
)
def test_lines_in_capitals(line):
    assert is_in_capitals(line)


@pytest.mark.parametrize(
    "line", ["", "NATO", "USA.", "A dog.", "THE DOG is here", "犬が走る", "HTTPS://X.ORG/ABCDE", "1234567"]
)
def test_other_lines(line):
    assert not is_in_capitals(line)


def test_a_line_in_capitals_becomes_a_sentence():
    assert lower_capitals("WILL EMMA SEND {NAME}?") == "Will emma send {NAME}?"
    assert to_capitals("Die Straße ist groß.") == "DIE STRASSE IST GROSS."
