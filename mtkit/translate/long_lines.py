"""Cutting a line that is longer than anything the model was trained on, so that it can be put together again."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

# A sentence ends at one of these marks and the quotes or brackets that close after it, if white space follows;
# Chinese, Japanese and Indic marks need no space.
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*(?=\s)|(?<=[。!?।])[”’」』)]*")
_CLAUSE = re.compile(r"(?<=[,;:–—])(?=\s)|(?<=[,、;:])")
_WORD = re.compile(r"(?<=\S)(?=\s)")


class Part(NamedTuple):
    """A stretch of a line: white space and then text without white space at its ends."""

    space: str
    text: str


def split_line(line: str, lengths: Callable[[Sequence[str]], list[int]], longest: int) -> list[Part]:
    """Cut at sentences; a sentence that is still too long at clauses, then at words, then anywhere.

    Every sentence becomes a part of its own; clauses and words are taken together while they fit. Spaces and texts
    joined are the line again. The work and the memory are linear in the length of the line.

    Args:
        line: any text.
        lengths: gives the numbers of pieces of some texts.
        longest: pieces that a part may have, as long as it has more than one character.
    """
    texts = _cut(line, _SENTENCE)
    for level in (_CLAUSE, _WORD, None):
        sizes = lengths(texts)
        if max(sizes, default=0) <= longest:
            break
        texts = [
            part for text, size in zip(texts, sizes, strict=True) for part in _fit(text, size, level, lengths, longest)
        ]
    return [_part(text) for text in texts]


def _fit(
    text: str, size: int, level: re.Pattern[str] | None, lengths: Callable[[Sequence[str]], list[int]], longest: int
) -> list[str]:
    """The text if it fits, else its cuts of one level, neighbours together while the sum of their lengths fits."""
    if size <= longest:
        return [text]
    if level is None:
        return list(_halved(text, lengths, longest))
    cuts = _cut(text, level)
    packed: list[str] = []
    room = 0
    for cut, length in zip(cuts, lengths(cuts), strict=True):
        if packed and length <= room:
            packed[-1] += cut
            room -= length
        else:
            packed.append(cut)
            room = longest - length
    return packed


def _halved(text: str, lengths: Callable[[Sequence[str]], list[int]], longest: int) -> Iterator[str]:
    texts = [text]
    while texts:
        head = texts.pop()
        if len(head) == 1 or lengths([head])[0] <= longest:
            yield head
        else:
            texts += [head[len(head) // 2 :], head[: len(head) // 2]]


def _cut(text: str, where: re.Pattern[str]) -> list[str]:
    """The text cut at the ends of all matches; white space stays before what follows it."""
    places = [0, *(match.end() for match in where.finditer(text)), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(places) if a < b]


def _part(text: str) -> Part:
    inner = text.lstrip()
    return Part(text[: len(text) - len(inner)], inner)
