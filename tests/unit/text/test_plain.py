"""White space and invisible characters change nothing, except where they carry meaning."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.text.normalise import _DROP, _EDGE, outer_space, plain

VARIANTS = {
    "no-break space": lambda words: "\xa0".join(words),
    "thin space": lambda words: "\u2009".join(words),
    "narrow no-break space": lambda words: "\u202f".join(words),
    "ideographic space": lambda words: "\u3000".join(words),
    "tab": lambda words: "\t".join(words),
    "doubled": lambda words: "  ".join(words),
    "at the ends": lambda words: f" \t{' '.join(words)}\u2003 ",
    "zero-width space": lambda words: " ".join(f"\u200b{word}\u200b" for word in words),
    "byte order mark": lambda words: "\ufeff" + " ".join(words),
    "direction marks": lambda words: "\u202a" + " ".join(f"\u200e{word}" for word in words) + "\u202c\u200f",
    "soft hyphens": lambda words: " ".join("\xad".join(word) for word in words),
    "joiners": lambda words: " ".join("\u200d\u200c".join(word) for word in words),
    "word joiners": lambda words: " ".join("\u2060".join(word) for word in words),
    "control characters": lambda words: "\x00".join(" ".join(words)) + "\x7f",
}
WORDS = st.lists(st.text("abcxyzäßéДжλ漢字かな.,!?'\"-()%", min_size=1, max_size=8), min_size=1, max_size=8)
ODD = st.text(
    "aZ.é漢 \xa0\u202f\u2009\u3000\t\n\x0b\x1c\x85\u2028\x00\x7f\xad\u200b\u200c\u200d\u200e\u202a\u2060\ufeff"
    "\u0645\u06cc\u0915\u094d\u0d4d\u0d28\ufe0f\u2764\U0001f468\U0001f525\U0001f3fd",
    max_size=30,
)


@pytest.mark.parametrize("variant", VARIANTS)
@given(words=WORDS)
def test_a_variant_is_the_plain_text(variant, words):
    assert plain(VARIANTS[variant](words)) == " ".join(words)


@given(ODD, st.booleans())
def test_plain_text_stays(line, keep):
    once = plain(line, keep_no_break=keep)
    assert plain(once, keep_no_break=keep) == once
    assert once == once.strip()
    assert not any(unicodedata.category(c) in ("Cc", "Cf") for c in once if c not in "\u200c\u200d")
    assert {c for c in once if c.isspace()} <= ({" ", "\xa0", "\u202f"} if keep else {" "})


@given(ODD)
def test_all_visible_characters_stay_in_order(line):
    def visible(text):
        return [c for c in text if not c.isspace() and unicodedata.category(c) not in ("Cc", "Cf")]

    assert visible(plain(line)) == visible(line)


@given(WORDS, st.text(" \t\u3000\xa0\u200b\ufeff\x00"), st.text(" \t\u3000\xa0\u200b\ufeff\x00"))
def test_outer_white_space_is_that_before_and_after_the_text(words, before, after):
    spaces = outer_space(before + " ".join(words) + after)
    assert spaces == ("".join(filter(str.isspace, before)), "".join(filter(str.isspace, after)))


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian: I want
        "\u0915\u094d\u200d\u0937",  # Devanagari half form
        "\u0928\u0d4d\u200d",  # a chillu letter at the end of a word
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # family
        "\u2764\ufe0f\u200d\U0001f525",  # heart on fire
        "\U0001f9d1\U0001f3fd\u200d\u2695\ufe0f",  # health worker with a skin tone
    ],
)
def test_joiners_that_carry_meaning_stay(text):
    assert plain(f"{text} {text}") == f"{text} {text}"


def test_joiners_without_meaning_go():
    assert plain("\u06cc\u200c \u06cc\u200c\u200c\u0645") == "\u06cc \u06cc\u200c\u0645"


def test_the_target_side_keeps_no_break_spaces():
    assert plain("Quoi\u202f? «\xa0Oui\xa0» 5\xa0 km\xa0", keep_no_break=True) == "Quoi\u202f? «\xa0Oui\xa0» 5 km"


def test_every_character_that_is_dropped_or_white_is_one_of_the_edge() -> None:
    every = map(chr, range(0x110000))
    assert {each for each in every if each.isspace() or _DROP.match(each)} == set(_EDGE)
