"""Random lines of text of the kinds that break programs."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable

WORDS = ["the", "dog", "Hund", "große", "x", "42", "<unk>", "▁", "<s>", "\\n", "{", '"', "&amp;", "%s"]
SPACES = " \t\u00a0\u2003\u200b\u3000\ufeff"
BREAKS = "\x00\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\r"  # splitlines splits on these, a line does not
COMBINING = [chr(code) for code in range(0x300, 0x370)]
EMOJI = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "☠️", "𓀀", "𝕏"]
RIGHT_TO_LEFT = ["\u202e", "\u200f", "שלום", "مرحبا", "\u2067", "\u2069"]


def line(rng: random.Random) -> str:
    """One line without a line end."""
    kinds: list[Callable[[random.Random], str]] = [_words, _characters, _words, _long, _marked, _blank, _mixed]
    return rng.choice(kinds)(rng).replace("\n", " ").removesuffix("\r")


def _words(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 12)))


def _characters(rng: random.Random) -> str:
    return "".join(_character(rng) for _ in range(rng.randint(1, 30)))


def _character(rng: random.Random) -> str:
    while True:
        character = chr(rng.randrange(rng.choice((0x80, 0x800, 0x10000, 0x110000))))
        if unicodedata.category(character) != "Cs":
            return character


def _long(rng: random.Random) -> str:
    return rng.choice(["a", "ä", "👍🏽", "-", "0", "e\u0301", "ab "]) * rng.randint(50, 400)


def _marked(rng: random.Random) -> str:
    return "".join(rng.choice("abc") + "".join(rng.choices(COMBINING, k=rng.randint(0, 8))) for _ in range(6))


def _blank(rng: random.Random) -> str:
    return "".join(rng.choices(SPACES + BREAKS, k=rng.randint(0, 5)))


def _mixed(rng: random.Random) -> str:
    pieces = [*WORDS, *EMOJI, *RIGHT_TO_LEFT, *SPACES, *BREAKS]
    return "".join(rng.choices(pieces, k=rng.randint(1, 15)))


def lines(seed: int, count: int) -> list[str]:
    """Lines of a seed."""
    rng = random.Random(seed)
    return [line(rng) for _ in range(count)]
