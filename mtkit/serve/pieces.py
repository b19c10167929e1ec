"""Pieces of lines: long lines wait in the queue as groups of sentences, and their results become one again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mtkit.text.normalise import plain
from mtkit.text.sentences import split_sentences
from mtkit.translate.merge import space_between

PIECE = 800  # characters of a group of sentences


class Piece(NamedTuple):
    """A part of a line, and the white space before it."""

    space: str
    text: str


@dataclass(frozen=True, kw_only=True)
class LineResult:
    """The translation of a line.

    Attributes:
        hyp, flags, alignment, terms: see Translation.
        confidence: probability of each word of the translation; None: unknown.
        alternatives: other translations, best first; none of a line that was split.
        next_words: see `mtkit.translate.next_words`.
    """

    hyp: str
    flags: tuple[str, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()
    confidence: tuple[float | None, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()
    alternatives: tuple[str, ...] = ()
    next_words: tuple[tuple[str, str], ...] = ()


def split_pieces(line: str, *, sentences: bool) -> list[Piece]:
    """The pieces of a line, which is one if it is short or its sentences are not translated by themselves."""
    if len(line) <= PIECE or not sentences:
        return [Piece("", line)]
    groups: list[str] = []
    for sentence in split_sentences(line):
        if groups and len(groups[-1]) + len(sentence) <= PIECE:
            groups[-1] += sentence
        else:
            groups.append(sentence)
    pieces = [Piece("", groups[0])]
    for group in groups[1:]:
        text = group.lstrip()
        space = group[: len(group) - len(text)]
        pieces.append(Piece(" " if space and not plain(space) else space, text))
    return pieces


def merge_pieces(pieces: Sequence[Piece], results: Sequence[dict[str, Any]]) -> LineResult:
    """The result of a line from those of its pieces."""
    hyp = ""
    num_src = num_tgt = 0
    alignment: list[tuple[int, int]] = []
    for piece, result in zip(pieces, results, strict=True):
        if hyp:
            hyp += space_between(hyp, piece.space, is_blank=not result.get("hyp"))
        hyp += result.get("hyp", "")
        alignment += [(src + num_src, tgt + num_tgt) for src, tgt in result.get("alignment", ())]
        num_src += len(piece.text.split())
        num_tgt += len(result.get("hyp", "").split())
    return LineResult(
        hyp=hyp,
        flags=tuple(dict.fromkeys(flag for result in results for flag in result.get("flags", ()))),
        alignment=tuple(alignment),
        confidence=tuple(each for result in results for each in result.get("confidence", ())),
        terms=tuple((term, form) for result in results for term, form in result.get("terms", ())),
        alternatives=tuple(results[0].get("alternatives", ())) if len(results) == 1 else (),
        next_words=tuple((word, hyp) for word, hyp in results[0].get("next", ())),
    )


def through(first: LineResult, second: LineResult) -> LineResult:
    """The result of a line that was translated to a third language and from there; confidence is that of the second."""
    links: dict[int, list[int]] = {}
    for middle, tgt in second.alignment:
        links.setdefault(middle, []).append(tgt)
    pairs = {(src, tgt) for src, middle in first.alignment for tgt in links.get(middle, ())}
    return LineResult(
        hyp=second.hyp,
        flags=tuple(dict.fromkeys((*first.flags, *second.flags))),
        alignment=tuple(sorted(pairs)),
        confidence=second.confidence,
        alternatives=second.alternatives,
    )
