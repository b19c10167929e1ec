"""Splitting of lines that are longer than any training source, so that the parts can be merged again."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mtkit.text.spans import find_spans

# Where chunks end: one of these marks and the quotes or brackets that close after it, if white space follows; Chinese,
# Japanese and Indic marks need no space. `split_sentences` knows the ends of sentences better, but not backwards.
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*(?=\s)|(?<=[。!?।])[”’」』)]*")
_CLAUSE = re.compile(r"(?<=[,;:–—])(?=\s)|(?<=[,、;:])")
_WORD = re.compile(r"(?<=\S)(?=\s)")


# Longer lines are cut into chunks, which are split one after the other: sentencepiece needs 200 bytes a character.
MAX_CHUNK = 1 << 16  # characters


class LinePart(NamedTuple):
    """A part of a line: white space, and text that does not begin with white space."""

    leading_space: str
    text: str


def cut_into_chunks(line: str) -> Iterator[str]:
    """Cut at most MAX_CHUNK characters at a time, after the last sentence of their second half if one ends there;
    otherwise after the last clause or word, or anywhere. The concatenation of all chunks is the line.
    """
    start = 0
    while len(line) - start > MAX_CHUNK:
        window = line[start : start + MAX_CHUNK]
        end = start + next(filter(None, (_last_end(window, level) for level in (_SENTENCE, _CLAUSE, _WORD))), MAX_CHUNK)
        yield line[start:end]
        start = end
    yield line[start:]


def _last_end(text: str, level: re.Pattern[str]) -> int | None:
    """End of the last match before the end of the text, which lies in its second half; None if there is none."""
    ends = [match.end() for match in level.finditer(text, len(text) // 2) if match.end() < len(text)]
    return ends[-1] if ends else None


def split_line(line: str, lengths: Callable[[Sequence[str]], list[int]], max_length: int) -> list[LinePart]:
    """Split at sentences; sentences that are still too long at clauses, then at words, then anywhere.

    Every sentence becomes a part; clauses and words are combined while they fit. The concatenation of all spaces and
    texts is the line. Time and memory are linear in the length of the line.

    Args:
        line: any text.
        lengths: returns the number of tokens of each of some texts.
        max_length: tokens that a part may have, unless it is a single character.
    """
    from mtkit.text.sentences import split_sentences  # its patterns take long to compile

    stripped = line.rstrip()
    texts = [*split_sentences(stripped), *([line[len(stripped) :]] if len(stripped) < len(line) else [])]
    for level in (_CLAUSE, _WORD, None):
        sizes = lengths(texts)
        if max(sizes, default=0) <= max_length:
            break
        texts = [
            part
            for text, size in zip(texts, sizes, strict=True)
            for part in _fit(text, size, level, lengths, max_length)
        ]
    return [_part(text) for text in texts]


def _fit(
    text: str, size: int, level: re.Pattern[str] | None, lengths: Callable[[Sequence[str]], list[int]], max_length: int
) -> list[str]:
    """The text if it fits; else split at one level, with neighbours combined while the sum of their lengths fits."""
    if size <= max_length:
        return [text]
    if level is None:
        return _halved(text, lengths, max_length)
    parts = _split(text, level)
    packed: list[str] = []
    free = 0  # tokens that still fit into the last part
    for part, length in zip(parts, lengths(parts), strict=True):
        if packed and length <= free:
            packed[-1] += part
            free -= length
        else:
            packed.append(part)
            free = max_length - length
    return packed


def _halved(text: str, lengths: Callable[[Sequence[str]], list[int]], max_length: int) -> list[str]:
    """Halve a text that does not fit, and its halves, until they fit."""
    texts = [(text, False)]  # with whether it fits
    while not all(fits for _, fits in texts):
        halves = [half for each, fits in texts if not fits for half in _halves(each)]
        measured = iter(zip(halves, lengths(halves), strict=True))
        texts = [
            (half, len(half) == 1 or size <= max_length)
            for each, fits in texts
            for half, size in ([(each, 0)] if fits else itertools.islice(measured, 2))
        ]
    return [each for each, _ in texts]


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _split(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Split at the end of each match outside spans; white space stays at the beginning of what follows."""
    spans = find_spans(text)
    starts = [span.start for span in spans]

    def is_in_span(offset: int) -> bool:
        index = bisect_left(starts, offset) - 1  # the last span that begins before the offset
        return index >= 0 and offset < spans[index].end

    ends = [0, *(end for match in pattern.finditer(text) if not is_in_span(end := match.end())), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(ends) if start < end]


def _part(text: str) -> LinePart:
    stripped = text.lstrip()
    return LinePart(text[: len(text) - len(stripped)], stripped)
