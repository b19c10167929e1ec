"""Segments: lines, or parts of long lines or single sentences of a line, that are translated as one."""

from __future__ import annotations

import itertools
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mtkit.search.hypothesis import Hypothesis
from mtkit.text.normalise import NO_SPACE, OuterSpace, outer_space, speaker_dash
from mtkit.text.spans import find_spans, is_in_capitals, lower_capitals
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.alignment import Replacement
from mtkit.translate.lines import MAX_CHUNK, Line, TokenConstraints, text_of
from mtkit.translate.removal import Removal


@dataclass
class Segment:
    """A line, or a part of a long line, that is translated as one."""

    line: int  # number of the line in the whole text, from 1
    number: int  # among all segments of all lines; the same in every batch and window
    leading_space: str  # white space of the line before the segment
    trailing_space: str  # white space at the end of the line, after its last segment
    text: str
    ids: list[int]
    flags: tuple[str, ...] = ()
    constraints: TokenConstraints | None = None
    hypotheses: list[Hypothesis] = field(default_factory=list)  # best first; none after an error
    violates_exclusion: bool = False  # all hypotheses contain an excluded text
    lacks: Sequence[tuple[str, ...]] = ()  # flags of each hypothesis, see Alternative
    replaced: Sequence[Replacement] = ()  # in the best text
    terms: tuple[tuple[str, str], ...] = ()  # see Translation
    is_in_capitals: bool = False  # whether the line was; `text` is in lower case then
    end: int = 0  # characters of the line up to the end of the segment
    removal: Removal | None = None  # of the spans that the ids lack
    spelled: tuple[Sequence[str], Sequence[str]] | None = None  # tokens with the spans that were put back

    def spell(self, pair: TokenizerPair) -> tuple[Sequence[str], Sequence[str]]:
        """The tokens of the text and of the best hypothesis, with U+2581 for a space."""
        if self.spelled is not None:
            return self.spelled
        text = self.text if self.removal is None else self.removal.rest
        return pair.spell("src", self.ids, text), pair.spell("tgt", self.hypotheses[0].tokens, text)

    def accept(self, hypotheses: list[Hypothesis], token_bytes: Sequence[bytes]) -> None:
        """Store the hypotheses that contain no excluded text; all of them if none is without.

        Search excludes them too, but tokens that are forced by other constraints can spell an excluded text.
        """
        self.hypotheses, self.violates_exclusion = hypotheses, False
        if self.constraints is None or not self.constraints.exclude:
            return
        written = [b"".join(token_bytes[token] for token in h.tokens) for h in hypotheses]
        valid = [
            h
            for h, text in zip(hypotheses, written, strict=True)
            if not any(excluded in text for excluded in self.constraints.exclude)
        ]
        self.hypotheses = valid or hypotheses
        self.violates_exclusion = not valid


_MAX_PARTS = 1 << 24  # parts of a line, for numbering them


def split_lines(
    lines: Sequence[Line],
    first: int,
    tokenizers: TokenizerPair,
    max_length: int | None,
    *,
    split: bool = True,
    sentences: bool | None = False,
    removes: bool = False,
) -> Iterator[Segment]:
    """Split lines into segments; a blank line has none. The dash of a speaker stays before its line.

    Args:
        lines: with constraints as ids, see `tokenize_constraints`.
        first: number of the first line.
        tokenizers: of both sides.
        max_length: a line of more source tokens becomes several segments (see `split_line`), unless texts are
            included or excluded; a prefix is that of the first segment. None: no line is split.
        split: False splits no line that is too long; such lines are flagged.
        sentences: every sentence becomes a segment; None: in lines of several sentences without constraints.
        removes: a line that is not too long without its spans is read without them.
    """
    tokenizer = tokenizers.src
    texts = [text_of(line) for line in lines]
    constraints_of = [None if isinstance(line, str) else line.ids for line in lines]
    lengths, spaces = [*map(len, texts)], {}
    if tokenizers.config.normaliser != "none":
        spaces = {i: space for i, text in enumerate(texts) if any(space := outer_space(text))}
        texts = [tokenizers.prepare("src", text) for text in texts]
    capitals = set()
    for i in (i for i, constraints in enumerate(constraints_of) if constraints is None):
        if dash := speaker_dash(texts[i]):
            before, after = spaces.get(i, NO_SPACE)
            spaces[i], texts[i] = OuterSpace(before + dash, after), texts[i][len(dash) :]
        if tokenizers.config.robustness and is_in_capitals(texts[i]):
            capitals.add(i)
            texts[i] = lower_capitals(texts[i])
    not_blank = [i for i, text in enumerate(texts) if text and not text.isspace()]
    split = split and max_length is not None
    can_split = {i for i in not_blank if (split or sentences is not False) and _can_split(constraints_of[i])}
    by_sentences = {i for i in can_split if sentences or (sentences is None and constraints_of[i] is None)}
    strips = sentences is True
    parted = {i for i in can_split if _has_parts(texts[i], sentences=i in by_sentences, strips=strips)}
    whole = [i for i in not_blank if i not in parted]
    ids_of = dict(zip(whole, tokenizers.read("src", [texts[i] for i in whole]), strict=True))
    for i in not_blank:
        text, constraints = texts[i], constraints_of[i]
        before, after = spaces.get(i, NO_SPACE)
        ids = ids_of.get(i)
        is_long = ids is None or (max_length is not None and len(ids) > max_length)
        removal = _short_rest(text, tokenizers, max_length) if is_long and ids and removes and i in can_split else None
        if removal is not None:
            ids, is_long = tokenizers.read("src", [removal.rest])[0], False
        if ids is not None and not (is_long and i in can_split):
            flags = (*(("long",) if is_long else ()), *_unknown(ids, tokenizer))
            number = (first + i) * _MAX_PARTS
            line = first + i, number, before, after, text, ids, flags, constraints
            yield Segment(*line, is_in_capitals=i in capitals, end=lengths[i], removal=removal)
        else:
            limit = max_length if split and max_length is not None else sys.maxsize
            numbered = text, constraints, first + i
            parts = _split_line(*numbered, tokenizers, limit, sentences=i in by_sentences, removes=removes)
            yield from _whole_line(parts, OuterSpace(before, after), lengths[i], is_in_capitals=i in capitals)


def _has_parts(text: str, *, sentences: bool, strips: bool) -> bool:
    """True for a line that cannot be one segment.

    Args:
        sentences: several sentences are several segments.
        strips: white space at the ends is no part of a segment.
    """
    from mtkit.text.sentences import sentence_ends  # as split_line

    if len(text) > MAX_CHUNK:
        return True
    return sentences and ((strips and text != text.strip()) or next(sentence_ends(text), None) is not None)


def _short_rest(text: str, tokenizers: TokenizerPair, max_length: int | None) -> Removal | None:
    """A line without its spans, if it has some and is not too long then."""
    spans = find_spans(text)
    removal = Removal.of(text, spans)
    is_short = spans and removal.has_words and len(tokenizers.read("src", [removal.rest])[0]) <= (max_length or 0)
    return removal if is_short else None


def _can_split(constraints: TokenConstraints | None) -> bool:
    return constraints is None or constraints.is_prefix_only


def _split_line(
    text: str,
    constraints: TokenConstraints | None,
    line: int,
    tokenizers: TokenizerPair,
    max_length: int,
    *,
    sentences: bool,
    removes: bool,
) -> Iterator[Segment]:
    def lengths(texts: Sequence[str]) -> list[int]:
        read = [Removal.of(text, find_spans(text)).rest for text in texts] if removes else texts
        return [len(ids) for ids in tokenizers.read("src", read)]

    from mtkit.text.sentences import split_sentences  # as split_line

    number, end = line * _MAX_PARTS, 0
    for chunk in cut_into_chunks(text):
        parts = split_line(chunk, lengths, max_length)
        is_cut = not sentences or len(parts) > len(split_sentences(chunk))
        for part, ids in zip(parts, tokenizers.read("src", [p.text for p in parts]), strict=True):
            end += len(part.leading_space) + len(part.text)
            flags = (*(("split",) if is_cut else ()), *_unknown(ids, tokenizers.src))
            given = constraints if ids else None
            removal = _short_rest(part.text, tokenizers, max_length) if removes and len(ids) > max_length else None
            if removal is not None:
                ids = tokenizers.read("src", [removal.rest])[0]
            fields = line, number, part.leading_space, "", part.text, ids, flags, given
            yield Segment(*fields, end=end, removal=removal)
            number += 1
            constraints = None if ids else constraints  # the prefix begins the first translation


def _whole_line(
    segments: Iterator[Segment], space: OuterSpace, length: int, *, is_in_capitals: bool
) -> Iterator[Segment]:
    """The segments of a line, of which the first and the last have the white space at its ends.

    The last one ends where the line does, from which the normaliser may have dropped characters.
    """
    segment = next(segments)
    segment.leading_space = space.before + segment.leading_space
    segment.is_in_capitals = is_in_capitals
    for following in segments:
        yield segment
        segment = following
    segment.trailing_space, segment.end = space.after, length
    yield segment


def _unknown(ids: Sequence[int], tokenizer: Tokenizer) -> tuple[str, ...]:
    return ("unknown",) if tokenizer.vocab.unk in ids else ()


# Where chunks end: one of these marks and the quotes or brackets that close after it, if white space follows; Chinese,
# Japanese and Indic marks need no space. `split_sentences` knows the ends of sentences better, but not backwards.
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*(?=\s)|(?<=[。!?।])[”’」』)]*")
_CLAUSE = re.compile(r"(?<=[,;:–—])(?=\s)|(?<=[,、;:])")
_WORD = re.compile(r"(?<=\S)(?=\s)")


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
