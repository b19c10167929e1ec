"""Spans taken out of a source before it is translated, and put into the translation of the rest.

A model that has seen few spans garbles them and often the words beside them, so that their place in its translation is
lost as well. The rest of the line is text as the model knows it, and the word before a span tells where it belongs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.text.normalise import SPACE_MARK
from mtkit.text.spans import FIRST_KANA, Span, is_spaced
from mtkit.translate.alignment import Aligned

_SIGNS = "%‰°€$£¥§#+=~@"  # beside a span without a space they belong to it
_BRACKETS = frozenset(("()", "[]", "{}", '""', "''", "“”", "„“", "‘’", "‚‘", "«»", "**", "__", "~~", "||"))
MAX_DISTANCE = 3  # words of the source on each side of a span, of which one must have a place
MIN_SAME = 4  # letters of a word that is a name, if the translation has it too
_STOPS = ".,;:!?…。、"
_WORD = re.compile(rf"[^\W{FIRST_KANA}-\uffff]+(?:['’][^\W{FIRST_KANA}-\uffff]+)*|\w")


def may_be_word(text: str, span: Span) -> bool:
    """Return whether a span may be a word in a translation, as in `2 men`: a digit without sign, letter or brackets."""
    return span.is_number and len(span.text) == 1 and _with_signs(text, span.start, span.end) == span[:2]


class SpanPiece(NamedTuple):
    """A stretch to put into a text, with the white space that it brings: `start` characters stand before it."""

    start: int
    number: int
    text: str


@dataclass(frozen=True)
class Removal:
    """A source without some of its spans.

    Attributes:
        rest: the source without the pieces.
        pieces: the spans with brackets, signs and a comma that belong to them, in order.
    """

    rest: str
    pieces: tuple[SpanPiece, ...]

    @classmethod
    def of(cls, text: str, spans: Iterable[Span]) -> Removal:
        """The source without spans."""
        pieces: list[SpanPiece] = []
        rest, end = "", 0
        for span in sorted(spans):
            start, stop = _with_signs(text, span.start, span.end)
            # a comma or colon, and a space, would make no sense without the span
            before, after = text[:start].rstrip(), text[stop:].lstrip()
            if before.endswith((",", ":")) and (not after or after[0] in _STOPS):
                start = len(before) - 1
            elif not before and after.startswith((",", ":")):
                stop = len(text) - len(after) + 1
            if text[:start][-1:].isspace() and not text[stop:][:1].isalnum():
                start -= 1
            elif not text[:start] and text[stop:][:1].isspace():
                stop += 1
            start = max(start, end)
            if span.end > end:  # what belongs to the span before may have all of this one
                rest += text[end:start]
                pieces.append(SpanPiece(len(rest), len(pieces), text[start:stop]))
                end = stop
        return cls(rest + text[end:], tuple(pieces))

    @property
    def has_words(self) -> bool:
        """True if the rest has something to translate."""
        return any(map(str.isalpha, self.rest))

    def restored(self, aligned: Aligned) -> Aligned | None:
        """Source and translation with the pieces that have a place, each aligned with itself; None without any.

        Args:
            aligned: the rest and its translation.
        """
        placed = []
        for piece in self.pieces:
            place = self._place(piece, aligned)
            if place is None:
                continue
            # with the spaces that separate it from the words around its place
            text, before, after = piece.text.strip(), aligned.hyp[:place][-1:], aligned.hyp[place:][:1]
            is_apart = not before or before.isspace() or before in "([{" or text[0] in ",:"
            is_attached = not piece.text[0].isspace() and self.rest[: piece.start][-1:].isalnum()
            space_after = " " if after.isalnum() and not self._is_attached_after(piece) else ""
            spaced = ("" if is_apart or is_attached else " ") + text + space_after
            placed.append(SpanPiece(place, piece.number, spaced))
        if not placed:
            return None
        src_tokens, src_of = _insert(aligned.src_tokens, self.pieces)
        tgt_tokens, tgt_of = _insert(aligned.tgt_tokens, sorted(placed))
        attention = aligned.attention[np.ix_(np.maximum(tgt_of, 0), np.maximum(src_of, 0))]
        attention[tgt_of < 0] = 0
        attention[:, src_of < 0] = 0
        attention[(tgt_of[:, None] == src_of) & (src_of < 0)] = 1
        src, tgt = ("".join(tokens).replace(SPACE_MARK, " ") for tokens in (src_tokens, tgt_tokens))
        return Aligned.of(src, src_tokens, tgt, tgt_tokens, attention)

    def _place(self, piece: SpanPiece, aligned: Aligned) -> int | None:
        """The characters of the translation of the rest before a piece: behind the word before it, if there is one."""
        words = [match.span() for match in _WORD.finditer(self.rest)]
        previous = [word for word in words if word[0] < piece.start]
        following = [word for word in words if word[0] >= piece.start]
        if not previous:
            return 0
        if not following and piece.text.lstrip()[0] in ",:":  # it closes the sentence, before the final stop
            return len(aligned.hyp.rstrip(_STOPS))
        # with a stop between the word before it and itself, a piece begins what follows
        is_set_off = any(c in _STOPS for c in self.rest[previous[-1][1] : piece.start])
        sides = [(previous[::-1], 1), (following, 0)]
        if is_set_off or self._is_attached_after(piece):
            sides.reverse()
        for distance in range(MAX_DISTANCE):  # a word may have no counterpart; then the next one on either side
            for side, edge in sides:
                if distance < len(side) and (place := _range(aligned, side[distance])) is not None:
                    return place[edge]
        return None if following else len(aligned.hyp.rstrip(_STOPS))

    def _is_attached_after(self, piece: SpanPiece) -> bool:
        return not piece.text[-1].isspace() and self.rest[piece.start :][:1].isalnum()


def _range(aligned: Aligned, word: tuple[int, int]) -> tuple[int, int] | None:
    """The characters of the translation for a word: the same word, where both sides have it once, or by attention."""
    text = aligned.src[slice(*word)]
    if len(text) >= MIN_SAME:
        same = [[m.span() for m in _WORD.finditer(side) if m[0] == text] for side in (aligned.src, aligned.hyp)]
        if all(len(each) == 1 for each in same):
            return same[1][0]
    return aligned.target_range(*word)


def _with_signs(text: str, start: int, end: int) -> tuple[int, int]:
    """A span with the signs and letters that touch it, and brackets around both."""
    is_tag = text[start] == "<"  # words stand beside it
    while start > 0 and (text[start - 1] in _SIGNS or (not is_tag and is_spaced(text[start - 1]))):
        start -= 1
    while end < len(text) and (text[end] in _SIGNS or (not is_tag and is_spaced(text[end]))):
        end += 1
    while start > 0 and end < len(text) and text[start - 1] + text[end] in _BRACKETS:
        start, end = start - 1, end + 1
    return start, end


def _insert(tokens: Sequence[str], pieces: Sequence[SpanPiece]) -> tuple[list[str], NDArray[np.intp]]:
    """Tokens with pieces between them, and the index of each as it was; that of a piece is -1 - its number.

    A token that a piece cuts becomes two. The mark before the first word, which is no space, is left out.
    """
    inserted: list[tuple[str, int]] = []
    waiting, length = [*pieces], 0
    for index, token in enumerate(tokens):
        part = token.removeprefix(SPACE_MARK) if index == 0 else token
        while waiting and waiting[0].start < length + len(part):
            piece = waiting.pop(0)
            cut = piece.start - length
            inserted += [(part[:cut], index)] if cut else []
            inserted.append((piece.text.replace(" ", SPACE_MARK), -1 - piece.number))
            part, length = part[cut:], piece.start
        inserted.append((part, index))
        length += len(part)
    inserted += [(piece.text.replace(" ", SPACE_MARK), -1 - piece.number) for piece in waiting]
    return [part for part, _ in inserted], np.array([index for _, index in inserted])
