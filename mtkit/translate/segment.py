"""Segments: lines, or parts of long lines, that are translated as one; splitting lines and merging the results."""

from __future__ import annotations

import itertools
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mtkit.search.hypothesis import Hypothesis
from mtkit.search.length_penalty import LengthPenalty
from mtkit.text.form.plain import NO_SPACE, OuterSpace, outer_space
from mtkit.text.form.spans import find_spans
from mtkit.text.form.variants import is_in_capitals, lower_capitals, to_capitals
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.alignment import Replacement, links_of, moved_pairs, word_pairs
from mtkit.translate.constraints import LineRequest, TokenConstraints
from mtkit.translate.fidelity.removal import Removal
from mtkit.translate.long_lines import MAX_CHUNK, cut_into_chunks, split_line
from mtkit.translate.translation import Alternative, Translation

_LINE_BREAK = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_MAX_PARTS = 1 << 24  # parts of a line, for numbering them


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
    hypotheses: list[Hypothesis] = field(default_factory=list)  # best first
    violates_exclusion: bool = False  # all hypotheses contain an excluded text
    texts: list[str] = field(default_factory=list)  # of `hypotheses`
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


def split_lines(
    requests: Sequence[LineRequest],
    first: int,
    tokenizers: TokenizerPair,
    max_length: int | None,
    *,
    split: bool = True,
    sentences: bool = False,
    removes: bool = False,
) -> Iterator[Segment]:
    """Split lines into segments; a blank line has none.

    Args:
        requests: the lines.
        first: number of the first line.
        tokenizers: of both sides.
        max_length: a line of more source tokens becomes several segments (see long_lines.py), unless texts are
            included or excluded; a prefix is that of the first segment. None: no line is split.
        split: False splits no line that is too long; such lines are flagged.
        sentences: every sentence becomes a segment.
        removes: a line that is not too long without its spans is read without them.
    """
    tokenizer = tokenizers.src
    lengths = [len(request.text) for request in requests]
    spaces = {}
    if tokenizers.config.normaliser != "none":
        spaces = {i: space for i, (text, _) in enumerate(requests) if any(space := outer_space(text))}
        requests = [request._replace(text=tokenizers.prepare("src", request.text)) for request in requests]
    capitals = set()
    if tokenizers.config.robustness:
        capitals = {i for i, (text, given) in enumerate(requests) if given is None and is_in_capitals(text)}
        requests = [r._replace(text=lower_capitals(r.text)) if i in capitals else r for i, r in enumerate(requests)]
    not_blank = [i for i, (text, _) in enumerate(requests) if text and not text.isspace()]
    split = split and max_length is not None
    can_split = {i for i in not_blank if (split or sentences) and _can_split(requests[i])}
    whole = [i for i in not_blank if i not in can_split or (len(requests[i].text) <= MAX_CHUNK and not sentences)]
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
            parts = _split_line(requests[i], first + i, tokenizers, limit, sentences=sentences, removes=removes)
            yield from _whole_line(parts, OuterSpace(before, after), lengths[i], is_in_capitals=i in capitals)


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

    from mtkit.text.structure.sentences import split_sentences  # as split_line

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


class LineMerger:
    """Merges the translations of a line's segments, which it takes one at a time, into the translation of the line.

    Attributes:
        line: number of the line.
    """

    def __init__(self, line: int, tokenizers: TokenizerPair) -> None:
        self.line = line
        self._tokenizers = tokenizers
        self._first: Segment | None = None
        self._num_segments = self._num_src_tokens = 0
        self._src: list[str] = []  # text of the segments, with the white space before each
        self._hyp: list[str] = []
        self._trailing_space = ""
        self._log_probs: list[float] = []  # of the segments
        self._token_log_probs: list[float] = []
        self._tokens: list[str] = []
        self._flags: dict[str, None] = {}  # in order
        self._terms: list[tuple[str, str]] = []
        self._replaced: list[Replacement] = []
        self._length = 0  # characters before any was replaced
        self._is_finished, self._violates_exclusion, self._is_in_capitals = True, False, False
        self._alignment = _Alignment(tokenizers)

    def add(self, segment: Segment) -> None:
        """Take the next segment, after search and detokenization."""
        self._num_segments += 1
        self._num_src_tokens += len(segment.ids)
        self._src.append(f"{segment.leading_space}{segment.text}")
        space = space_between("".join(self._hyp[-1:]), segment.leading_space, is_blank=not segment.texts)
        self._hyp.append(space)
        self._length += len(space)
        self._trailing_space = collapse_newlines(segment.trailing_space)
        self._flags.update(dict.fromkeys(segment.flags))
        self._terms += segment.terms
        self._violates_exclusion |= segment.violates_exclusion
        self._is_in_capitals |= segment.is_in_capitals
        if not segment.hypotheses:
            return
        best, tokenizer = segment.hypotheses[0], self._tokenizers.tgt
        if self._first is None:
            self._first = segment
        else:
            self._tokens += tokenizer.ids_to_tokens([tokenizer.vocab.eos])
        self._hyp.append(segment.texts[0])
        self._replaced += [each._replace(start=self._length + each.start) for each in segment.replaced]
        self._length += len(segment.texts[0]) + sum(len(each.old) - len(each.new) for each in segment.replaced)
        self._log_probs.append(best.log_prob)
        self._token_log_probs += best.token_log_probs
        self._tokens += tokenizer.ids_to_tokens(best.tokens)
        self._is_finished &= best.finished
        self._alignment.add(segment, space)

    def translation(self, penalty: LengthPenalty) -> Translation:
        """The translation of the line; empty for a blank line."""
        if self._first is None:
            return Translation(line=self.line, hyp="")
        hyp, log_prob = "".join(self._hyp) + self._trailing_space, sum(self._log_probs)
        first = self._first
        before, after = self._hyp[0], self._trailing_space
        nbest = [
            (f"{before}{text}{after}", h.score, h.log_prob)
            for h, text in zip(first.hypotheses, first.texts, strict=True)
        ]
        if self._num_segments > 1:
            score = penalty.score_of(log_prob, len(self._token_log_probs))
            nbest = [(hyp, score, log_prob)]
            self._flags.update(dict.fromkeys(self._flags_of_cut_spans(hyp)))
        written = to_capitals if self._is_in_capitals else str
        pairs = self._alignment.pairs()
        last_flags = {"limit": not self._is_finished, "excluded": self._violates_exclusion}
        num_tokens = len(self._tokens) - (len(self._log_probs) - 1)  # without the ends of segments
        return Translation(
            line=self.line,
            hyp=written(hyp),
            score=nbest[0][1],
            log_prob=log_prob,
            tokens=tuple(self._tokens),
            token_log_probs=tuple(self._token_log_probs),
            alignment=moved_pairs(pairs, hyp, self._replaced) if self._replaced else pairs,
            nbest=tuple(Alternative(hyp=written(text), score=score, log_prob=nats) for text, score, nats in nbest),
            length_ratio=num_tokens / max(1, self._num_src_tokens),
            flags=(*self._flags, *(flag for flag, is_set in last_flags.items() if is_set)),
            terms=tuple(self._terms),
        )

    def _flags_of_cut_spans(self, hyp: str) -> Iterator[str]:
        """The flags of spans that were cut with their line, which are none in its parts."""
        ends = list(itertools.accumulate(map(len, self._src)))
        for span in find_spans("".join(self._src)):
            is_cut = bisect_right(ends, span.start) < bisect_left(ends, span.end)
            if is_cut and span.text not in hyp and all(span.text not in term for term, _ in self._terms):
                yield "numbers" if span.is_number else "missing"


class _Alignment:
    """Collects the word pairs of a line; there are none without attention."""

    def __init__(self, tokenizers: TokenizerPair) -> None:
        self._tokenizers = tokenizers
        self._src: list[str] = []
        self._tgt: list[str] = []
        self._links: list[tuple[int, int]] = []

    def add(self, segment: Segment, space: str) -> None:
        """Take the next segment that has a hypothesis, and the white space before its translation."""
        attention = segment.hypotheses[0].attention
        if attention is None:
            return
        self._src.append(segment.leading_space)
        self._tgt.append(space)
        src, tgt = segment.spell(self._tokenizers)
        self._links += [(s + len(self._src), t + len(self._tgt)) for s, t in links_of(attention, len(src))]
        for tokens, new in ((self._src, src), (self._tgt, tgt)):
            # the tokenizer puts a mark before the first word; it is no space of the text
            tokens += [token.removeprefix(SPACE_MARK) if i == 0 else token for i, token in enumerate(new)]

    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The word pairs of the whole line."""
        return word_pairs(self._links, self._src, self._tgt)


def space_between(before: str, space: str, *, is_blank: bool = False) -> str:
    """White space between a translation and that of the next segment: as in the source, or as the script needs it.

    Args:
        before: the translation before it.
        space: white space of the source before the segment.
        is_blank: whether the segment has no translation.
    """
    if not space and before.endswith((".", "!", "?", "…")) and not is_blank:
        return " "
    if space == " " and before.endswith(("。", "！", "？")):
        return ""
    return collapse_newlines(space)


def collapse_newlines(text: str) -> str:
    """The text with every line break, of any script, as a space."""
    return _LINE_BREAK.sub(" ", text)
