"""Spans are taken out of a source with what belongs to them, and stand behind the word that they follow."""

from __future__ import annotations

import numpy as np
import pytest

from mtkit.text.spans import find_spans
from mtkit.translate.alignment import Aligned
from mtkit.translate.removal import Removal
from mtkit.translate.translator import TranslationOptions
from tests.unit.translate.toy_translator import translator

CASES = [  # source, the rest, its translation, the source word of each of its words, the translation with the spans
    ("see https://a.b/c now", "see now", "siehe jetzt", [0, 1], "siehe https://a.b/c jetzt"),
    ("Emma {x} sees it.", "Emma sees it.", "Das sieht Emma.", [2, 1, 0], "Das sieht Emma {x}."),
    ("the dog, %s.", "the dog.", "der Hund.", [0, 1], "der Hund, %s."),
    ("Name: {x}", "Name", "der Name", [0, 0], "der Name: {x}"),
    ("{x}, the dog", "the dog", "der Hund", [0, 1], "{x}, der Hund"),
    ("{x} is red", "is red", "ist rot", [0, 1], "{x} ist rot"),
    ("the dog ({x}) sees", "the dog sees", "der Hund sieht", [0, 1, 2], "der Hund ({x}) sieht"),
    ("$50 for 20% of it", "for of it", "dafür davon", [0, 1], "$50 dafür 20% davon"),
    ("the file foo01 is red", "the file is red", "die Datei ist rot", [0, 1, 2, 3], "die Datei foo01 ist rot"),
    ("the $50%s, %s", "the", "der", [0], "der $50%s, %s"),
    ("a dog. {x} sees it", "a dog. sees it", "ein Hund. es sieht", [0, 1, 3, 2], "ein Hund. es {x} sieht"),
    ("a <b>big</b> dog", "a big dog", "ein großer Hund", [0, 1, 2], "ein <b>großer</b> Hund"),
    ("a {x} {y} dog", "a dog", "ein Hund", [0, 1], "ein {x} {y} Hund"),
    ("tell Robert {x} the tale", "tell Robert the tale", "die Mär Robert", [2, 3, 3], "die Mär Robert {x}"),
]


def align(src: str, hyp: str, links: list[int]) -> Aligned:
    """An alignment of words: for each word of the translation the word of the source that it attends to."""
    src_tokens, tgt_tokens = ([f"\u2581{word}" for word in text.split(" ")] for text in (src, hyp))
    attention = np.full((len(tgt_tokens), len(src_tokens)), 0.01, dtype=np.float32)
    attention[np.arange(len(links)), links] = 0.9
    alignment = Aligned.of(src, src_tokens, hyp, tgt_tokens, attention)
    assert alignment is not None
    return alignment


@pytest.mark.parametrize(("src", "rest", "hyp", "links", "expected"), CASES)
def test_spans_stand_behind_the_word_that_they_follow(src, rest, hyp, links, expected):
    removal = Removal.of(src, find_spans(src))
    assert removal.rest == rest
    restored = removal.restored(align(rest, hyp, links))
    assert restored is not None
    assert (restored.src, restored.hyp) == (src, expected)
    for piece in removal.pieces:  # each is aligned with itself
        text = piece.text.strip(" ,:()")
        place = restored.target_range(src.index(text), src.index(text) + len(text))
        assert place is not None
        assert text in expected[slice(*place)]


def test_a_span_without_a_place_is_not_put_back():
    src = "the dog the {x} dog the man is red"
    rest = align("the dog the dog the man is red", "rot so", [7, 7])
    assert Removal.of(src, find_spans(src)).restored(rest) is None
    src += " {y}"
    restored = Removal.of(src, find_spans(src)).restored(rest)
    assert restored is not None
    assert (restored.src, restored.hyp) == (src, "rot so {y}")


def test_a_line_that_only_its_spans_make_long_is_not_split(tokenizers):
    line, without = "the dog https://dxdbe.org/ebdxd sees", "the dog sees"
    limit = len(tokenizers.encode("src", [without])[0])
    (result,) = translator(tokenizers, max_source_length=limit).translate([line])
    (rest,) = translator(tokenizers).translate([without])
    assert "split" not in result.flags
    assert [word for word in result.hyp.split() if word != "https://dxdbe.org/ebdxd"] == rest.hyp.split()
    kept = TranslationOptions(restore=False)
    (cut,) = translator(tokenizers, max_source_length=limit, options=kept).translate([line])
    assert "split" in cut.flags
