"""Filters that read one pair at a time: of its lengths, characters and words, and what one side alone has."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from mtkit.corpus.filters.config import CopyFilterConfig, FilterConfigBase, LengthFilterConfig, RatioFilterConfig
from mtkit.corpus.filters.filter import MAX_COMPARED, Context, Fault, Filter, PairBlock
from mtkit.corpus.line_shift import split_tokens
from mtkit.corpus.split import HeldOutLines, are_odd, normalised, usual_ratio

HARMFUL = ("not_utf8", "control", "replacement", "mojibake")  # line breaks may stand in good sentences
# Mean occurrences of a word, by the smallest number of words of the line: of 90,000 pairs of three corpora, five, which
# are synopses of manual pages.
REPEATS = {16: 4, 8: 6}
_MARKUP = re.compile(
    r"</?(?:a|abbr|b|blockquote|body|br|button|center|code|dd|div|dl|dt|em|font|form|h[1-6]|head|hr|html|i|iframe|img|"
    r"input|li|link|meta|ol|option|p|pre|s|script|select|small|span|strong|style|sub|sup|table|tbody|td|th|title|tr|tt|"
    r"u|ul)(?:\s[^<>]{0,500})?/?>|&(?:[a-z]{2,8}|#\d{1,6}|#x[0-9a-f]{1,5});|<!--|<!\[CDATA\[",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:[.,'\u2019 \xa0\u202f]\d{3}(?!\d))*")
_DIGITS = re.compile(r"\d\d")
_URL = re.compile(r"https?://[^\s<>\"')\]]+")


class EmptyFilter(Filter):
    """Pairs with a blank side."""

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The blank side."""
        return None if src.strip() and tgt.strip() else int(bool(src.strip()))


class LengthFilter(Filter):
    """Pairs with a side of more characters than a sentence has."""

    def __init__(self, config: LengthFilterConfig) -> None:
        self._limit = config.max_characters

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The longer side."""
        return int(len(tgt) > len(src)) if max(len(src), len(tgt)) > self._limit else None


class RatioFilter(Filter):
    """Pairs of which a side is much longer than usual for the other one."""

    def __init__(self, config: RatioFilterConfig) -> None:
        self._max_ratio = config.max_ratio
        self._usual = 1.0

    def learn(self, sample: PairBlock, context: Context) -> None:
        """Take the median ratio."""
        self._usual = usual_ratio(sample.characters)

    def find(self, block: PairBlock) -> Iterator[Fault]:
        """Pairs with another ratio."""
        for row in np.flatnonzero(are_odd(block.characters, self._usual, self._max_ratio)):
            yield Fault(int(row))


class CharacterFilter(Filter):
    """Pairs with bytes that are not UTF-8, replacement, control and private characters, or UTF-8 read as Latin-1."""

    def find(self, block: PairBlock) -> Iterator[Fault]:
        """Pairs of which the reader recorded such characters."""
        for kind, side, row in block.odd:
            if kind in HARMFUL:
                yield Fault(row, side, kind)


class CopyFilter(Filter):
    """Pairs whose sides are equal, apart from spaces and capitals."""

    def __init__(self, config: CopyFilterConfig) -> None:
        self._min_words = config.min_words

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The source, if the target is the same; of scripts without spaces, characters count as words."""
        if src != tgt and normalised(src) != normalised(tgt):
            return None
        words = sum(any(map(str.isalnum, token)) for token in split_tokens(src[:MAX_COMPARED]))
        return 0 if words >= self._min_words else None


class RepetitionFilter(Filter):
    """Pairs of which a side repeats its words."""

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The first side whose words occur several times each."""
        for side, line in enumerate((src, tgt)):
            words = line[:MAX_COMPARED].split() if len(line) > min(REPEATS) else []
            if any(len(words) >= max(least, mean * len(set(words))) for least, mean in REPEATS.items()):
                return side
        return None


class HeldOutFilter(Filter):
    """Pairs of which a side is in valid or test; none if no such set is known."""

    def __init__(self, config: FilterConfigBase) -> None:
        self._lines = HeldOutLines(set(), set(), 0)

    def learn(self, sample: PairBlock, context: Context) -> None:
        """Take the lines of valid and test."""
        if context.held_out is not None:
            self._lines = context.held_out.lines

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The first side that is held out."""
        matches = self._lines.matches(src, tgt) if self._lines.src else (False, False)
        return matches.index(True) if any(matches) else None


class MarkupFilter(Filter):
    """Pairs with HTML tags or entities on one side alone; on both, they are to be translated with the text."""

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The side with markup."""
        src_has, tgt_has = (
            ("<" in line or "&" in line) and _MARKUP.search(line[:MAX_COMPARED]) is not None for line in (src, tgt)
        )
        return None if src_has == tgt_has else int(tgt_has)


def _digits(text: str) -> str:
    """The digits of a text as ASCII."""
    return "".join(char if char.isascii() else str(int(char)) for char in text if char.isdecimal())


class NumberFilter(Filter):
    """Pairs with a number of two digits or more on one side alone, thousands marks apart."""

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The source, if the numbers differ."""
        lines = src[:MAX_COMPARED], tgt[:MAX_COMPARED]
        sides = [
            {_digits(each).lstrip("0") for each in _NUMBER.findall(line)} if _DIGITS.search(line) else set()
            for line in lines
        ]
        if sides[0] == sides[1]:
            return None
        digits = [_digits(line) for line in lines]
        are_missing = (len(each) > 1 and each not in digits[1 - side] for side in (0, 1) for each in sides[side])
        return 0 if any(are_missing) else None


class AddressFilter(Filter):
    """Pairs with an address of the web on one side alone."""

    def faulty_side(self, src: str, tgt: str) -> int | None:
        """The source, if the addresses differ."""
        if "://" not in src and "://" not in tgt:
            return None
        one, other = (
            {each.rstrip(".,;:!?").lower() for each in _URL.findall(line[:MAX_COMPARED])} for line in (src, tgt)
        )
        return 0 if one != other else None
