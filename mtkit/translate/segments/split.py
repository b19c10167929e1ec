"""Lines become segments: white space at the ends, capitals, and the parts of long lines or single sentences."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from mtkit.text.normalise import NO_SPACE, OuterSpace, outer_space, speaker_dash
from mtkit.text.spans import find_spans
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.variants import is_in_capitals, lower_capitals
from mtkit.translate.constraints import LineRequest
from mtkit.translate.fidelity.removal import Removal
from mtkit.translate.segments.long_lines import MAX_CHUNK, cut_into_chunks, split_line
from mtkit.translate.segments.segment import Segment

_MAX_PARTS = 1 << 24  # parts of a line, for numbering them


def split_lines(
    requests: Sequence[LineRequest],
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
        requests: the lines.
        first: number of the first line.
        tokenizers: of both sides.
        max_length: a line of more source tokens becomes several segments (see long_lines.py), unless texts are
            included or excluded; a prefix is that of the first segment. None: no line is split.
        split: False splits no line that is too long; such lines are flagged.
        sentences: every sentence becomes a segment; None: in lines of several sentences without constraints.
        removes: a line that is not too long without its spans is read without them.
    """
    tokenizer = tokenizers.src
    lengths = [len(request.text) for request in requests]
    spaces = {}
    if tokenizers.config.normaliser != "none":
        spaces = {i: space for i, (text, _) in enumerate(requests) if any(space := outer_space(text))}
        requests = [request._replace(text=tokenizers.prepare("src", request.text)) for request in requests]
    dashes = {i: dash for i, (text, given) in enumerate(requests) if given is None and (dash := speaker_dash(text))}
    if dashes:
        requests = [r._replace(text=r.text[len(dashes.get(i, "")) :]) for i, r in enumerate(requests)]
        for i, dash in dashes.items():
            before, after = spaces.get(i, NO_SPACE)
            spaces[i] = OuterSpace(before + dash, after)
    capitals = set()
    if tokenizers.config.robustness:
        capitals = {i for i, (text, given) in enumerate(requests) if given is None and is_in_capitals(text)}
        requests = [r._replace(text=lower_capitals(r.text)) if i in capitals else r for i, r in enumerate(requests)]
    not_blank = [i for i, (text, _) in enumerate(requests) if text and not text.isspace()]
    split = split and max_length is not None
    can_split = {i for i in not_blank if (split or sentences is not False) and _can_split(requests[i])}
    by_sentences = {i for i in can_split if sentences or (sentences is None and requests[i].constraints is None)}
    strips = sentences is True
    parted = {i for i in can_split if _has_parts(requests[i].text, sentences=i in by_sentences, strips=strips)}
    whole = [i for i in not_blank if i not in parted]
    ids_of = dict(zip(whole, tokenizers.read("src", [requests[i].text for i in whole]), strict=True))
    for i in not_blank:
        text, constraints = requests[i]
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
            parts = _split_line(requests[i], first + i, tokenizers, limit, sentences=i in by_sentences, removes=removes)
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


def _can_split(request: LineRequest) -> bool:
    return request.constraints is None or request.constraints.is_prefix_only


def _split_line(
    request: LineRequest, line: int, tokenizers: TokenizerPair, max_length: int, *, sentences: bool, removes: bool
) -> Iterator[Segment]:
    def lengths(texts: Sequence[str]) -> list[int]:
        read = [Removal.of(text, find_spans(text)).rest for text in texts] if removes else texts
        return [len(ids) for ids in tokenizers.read("src", read)]

    from mtkit.text.sentences import split_sentences  # as split_line

    number, end, constraints = line * _MAX_PARTS, 0, request.constraints
    for chunk in cut_into_chunks(request.text):
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
