"""Segments: lines, parts of long lines or single sentences, that are translated as one, and merged into lines again."""

from __future__ import annotations

import itertools
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from mtkit.search.hypothesis import Hypothesis, SentenceRequest
from mtkit.search.length_penalty import LengthPenalty
from mtkit.text.normalise import NO_SPACE, SPACE_MARK, OuterSpace, outer_space, speaker_dash
from mtkit.text.spans import find_spans, is_in_capitals, lower_capitals, to_capitals
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.alignment import Replacement, links_of, moved_pairs, word_pairs
from mtkit.translate.lines import MAX_CHUNK, UNCONSTRAINED, Line, text_of
from mtkit.translate.removal import Removal
from mtkit.translate.translation import FIDELITY_FLAGS, Alternative, Translation


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
    request: SentenceRequest = UNCONSTRAINED  # the constraints on its translation
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
        if not self.request.exclude:
            return
        written = [b"".join(token_bytes[token] for token in h.tokens) for h in hypotheses]
        valid = [
            h
            for h, text in zip(hypotheses, written, strict=True)
            if not any(excluded in text for excluded in self.request.exclude)
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
    from mtkit.text.sentences import sentence_ends  # its patterns take long to compile

    texts = [text_of(line) for line in lines]
    requests = [UNCONSTRAINED if isinstance(line, str) else line.request for line in lines]
    lengths, spaces = [*map(len, texts)], {}
    if tokenizers.config.normaliser != "none":
        spaces = {i: space for i, text in enumerate(texts) if any(space := outer_space(text))}
        texts = [tokenizers.prepare("src", text) for text in texts]
    capitals = set()
    for i in (i for i, request in enumerate(requests) if not request.is_constrained):
        if dash := speaker_dash(texts[i]):
            before, after = spaces.get(i, NO_SPACE)
            spaces[i], texts[i] = OuterSpace(before + dash, after), texts[i][len(dash) :]
        if tokenizers.config.robustness and is_in_capitals(texts[i]):
            capitals.add(i)
            texts[i] = lower_capitals(texts[i])
    not_blank = [i for i, text in enumerate(texts) if text and not text.isspace()]
    split = split and max_length is not None
    can_split = by_sentences = set[int]()
    if split or sentences is not False:
        can_split = {i for i in not_blank if not (requests[i].include or requests[i].exclude)}
        by_sentences = {i for i in can_split if sentences or not (sentences is False or requests[i].is_constrained)}
    parted = {i for i in can_split if len(texts[i]) > MAX_CHUNK}
    for i in by_sentences - parted:
        # where every sentence is a segment, white space at the ends is no part of one
        if (sentences and texts[i] != texts[i].strip()) or next(sentence_ends(texts[i]), None) is not None:
            parted.add(i)
    whole = [i for i in not_blank if i not in parted]
    ids_of = dict(zip(whole, tokenizers.read("src", [texts[i] for i in whole]), strict=True))
    for i in not_blank:
        text, space, ids = texts[i], spaces.get(i, NO_SPACE), ids_of.get(i)
        segments: Iterable[Segment]
        is_long = ids is None or (max_length is not None and len(ids) > max_length)
        removal = _short_rest(text, tokenizers, max_length) if is_long and ids and removes and i in can_split else None
        if removal is not None:
            ids, is_long = tokenizers.read("src", [removal.rest])[0], False
        if ids is not None and not (is_long and i in can_split):
            flags = (*(("long",) if is_long else ()), *_unknown(ids, tokenizers.src))
            number = (first + i) * _MAX_PARTS
            segments = [
                Segment(first + i, number, *space, text, ids, flags, requests[i], end=lengths[i], removal=removal)
            ]
        else:
            limit = max_length if split and max_length is not None else sys.maxsize
            line = first + i, text, space, lengths[i], requests[i]
            segments = _split_line(*line, tokenizers, limit, sentences=i in by_sentences, removes=removes)
        for segment in segments:
            segment.is_in_capitals = i in capitals
            yield segment


def _short_rest(text: str, tokenizers: TokenizerPair, max_length: int | None) -> Removal | None:
    """A line without its spans, if it has some and is not too long then."""
    spans = find_spans(text)
    removal = Removal.of(text, spans)
    is_short = spans and removal.has_words and len(tokenizers.read("src", [removal.rest])[0]) <= (max_length or 0)
    return removal if is_short else None


def _split_line(
    line: int,
    text: str,
    space: OuterSpace,
    length: int,
    request: SentenceRequest,
    tokenizers: TokenizerPair,
    max_length: int,
    *,
    sentences: bool,
    removes: bool,
) -> Iterator[Segment]:
    """The segments of a line, of which the first and the last have the white space at its ends.

    The last one ends where the line of `length` characters does, from which the normaliser may have dropped some.
    """

    def lengths(texts: Sequence[str]) -> list[int]:
        read = [Removal.of(text, find_spans(text)).rest for text in texts] if removes else texts
        return [len(ids) for ids in tokenizers.read("src", read)]

    from mtkit.text.sentences import split_sentences  # as split_lines

    number, end = line * _MAX_PARTS, 0
    before, segment = space.before, None
    for chunk in cut_into_chunks(text):
        parts = split_line(chunk, lengths, max_length)
        is_cut = not sentences or len(parts) > len(split_sentences(chunk))
        for (leading_space, part), ids in zip(parts, tokenizers.read("src", [p for _, p in parts]), strict=True):
            if segment is not None:
                yield segment
            end += len(leading_space) + len(part)
            flags = (*(("split",) if is_cut else ()), *_unknown(ids, tokenizers.src))
            removal = _short_rest(part, tokenizers, max_length) if removes and len(ids) > max_length else None
            if removal is not None:
                ids = tokenizers.read("src", [removal.rest])[0]
            fields = line, number, before + leading_space, "", part, ids, flags
            segment = Segment(*fields, request if ids else UNCONSTRAINED, end=end, removal=removal)
            before, number = "", number + 1
            request = UNCONSTRAINED if ids else request  # the prefix begins the first translation
    if segment is not None:
        segment.trailing_space, segment.end = space.after, length
        yield segment


def _unknown(ids: Sequence[int], tokenizer: Tokenizer) -> tuple[str, ...]:
    return ("unknown",) if tokenizer.vocab.unk in ids else ()


# Where chunks end: one of these marks and the quotes or brackets that close after it, if white space follows; Chinese,
# Japanese and Indic marks need no space. `split_sentences` knows the ends of sentences better, but not backwards.
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*(?=\s)|(?<=[。!?।])[”’」』)]*")
_CLAUSE = re.compile(r"(?<=[,;:–—])(?=\s)|(?<=[,、;:])")
_WORD = re.compile(r"(?<=\S)(?=\s)")


def cut_into_chunks(line: str) -> Iterator[str]:
    """Cut at most MAX_CHUNK characters at a time, after the last sentence of their second half if one ends there;
    otherwise after the last clause or word, or anywhere. The concatenation of all chunks is the line.
    """
    start = 0
    while len(line) - start > MAX_CHUNK:
        window = line[start : start + MAX_CHUNK]
        ends: list[int] = []
        for level in (_SENTENCE, _CLAUSE, _WORD):
            ends = ends or [m.end() for m in level.finditer(window, MAX_CHUNK // 2) if m.end() < MAX_CHUNK]
        end = start + (ends[-1] if ends else MAX_CHUNK)
        yield line[start:end]
        start = end
    yield line[start:]


def split_line(line: str, lengths: Callable[[Sequence[str]], list[int]], max_length: int) -> list[tuple[str, str]]:
    """Split at sentences; sentences that are still too long at clauses, then at words, then anywhere.

    Every sentence becomes a part; clauses and words are combined while they fit. The concatenation of all spaces and
    texts is the line. Time and memory are linear in the length of the line.

    Args:
        line: any text.
        lengths: returns the number of tokens of each of some texts.
        max_length: tokens that a part may have, unless it is a single character.

    Returns:
        The parts: white space, and text that does not begin with white space.
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
    return [(text[: len(text) - len(text.lstrip())], text.lstrip()) for text in texts]


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
    halves = [text[: len(text) // 2], text[len(text) // 2 :]]
    fits = [len(half) == 1 or size <= max_length for half, size in zip(halves, lengths(halves), strict=True)]
    return [
        part
        for half, is_short in zip(halves, fits, strict=True)
        for part in ([half] if is_short else _halved(half, lengths, max_length))
    ]


def _split(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Split at the end of each match outside spans; white space stays at the beginning of what follows."""
    spans = find_spans(text)
    starts = [span.start for span in spans]

    def is_in_span(offset: int) -> bool:
        index = bisect_left(starts, offset) - 1  # the last span that begins before the offset
        return index >= 0 and offset < spans[index].end

    ends = [0, *(end for match in pattern.finditer(text) if not is_in_span(end := match.end())), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(ends) if start < end]


_LINE_BREAK = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


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
        self._links: list[tuple[int, int]] = []  # of the tokens as spelled, with white space; none without attention
        self._src_spelled: list[str] = []
        self._tgt_spelled: list[str] = []

    def add(self, segment: Segment) -> None:
        """Take the next segment, after search and detokenization."""
        self._num_segments += 1
        self._num_src_tokens += len(segment.ids)
        self._src.append(f"{segment.leading_space}{segment.text}")
        space = space_between("".join(self._hyp[-1:]), segment.leading_space, is_blank=not segment.hypotheses)
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
        self._hyp.append(best.text)
        self._replaced += [each._replace(start=self._length + each.start) for each in segment.replaced]
        self._length += len(best.text) + sum(len(each.old) - len(each.new) for each in segment.replaced)
        self._log_probs.append(best.log_prob)
        self._token_log_probs += best.token_log_probs
        self._tokens += tokenizer.ids_to_tokens(best.tokens)
        self._is_finished &= best.finished
        if best.attention is None:
            return
        self._src_spelled.append(segment.leading_space)
        self._tgt_spelled.append(space)
        src, tgt = segment.spell(self._tokenizers)
        offsets = len(self._src_spelled), len(self._tgt_spelled)
        self._links += [(s + offsets[0], t + offsets[1]) for s, t in links_of(best.attention, len(src))]
        for tokens, new in ((self._src_spelled, src), (self._tgt_spelled, tgt)):
            # the tokenizer puts a mark before the first word; it is no space of the text
            tokens += [token.removeprefix(SPACE_MARK) if i == 0 else token for i, token in enumerate(new)]

    def translation(self, penalty: LengthPenalty) -> Translation:
        """The translation of the line; empty for a blank line."""
        if self._first is None:
            return Translation(line=self.line, hyp="")
        hyp, log_prob = "".join(self._hyp) + self._trailing_space, sum(self._log_probs)
        first = self._first
        before, after = self._hyp[0], self._trailing_space
        nbest = [
            (f"{before}{h.text}{after}", h.score, h.log_prob, flags)
            for h, flags in zip(first.hypotheses, first.lacks, strict=True)
        ]
        if self._num_segments > 1:
            score = float(penalty.score(log_prob, len(self._token_log_probs)))
            ends = list(itertools.accumulate(map(len, self._src)))
            for span in find_spans("".join(self._src)):  # those that were cut with their line are none in its parts
                is_cut = bisect_right(ends, span.start) < bisect_left(ends, span.end)
                if is_cut and span.text not in hyp and all(span.text not in term for term, _ in self._terms):
                    self._flags["numbers" if span.is_number else "missing"] = None
            nbest = [(hyp, score, log_prob, tuple(flag for flag in self._flags if flag in FIDELITY_FLAGS))]
        written = to_capitals if self._is_in_capitals else str
        pairs = word_pairs(self._links, self._src_spelled, self._tgt_spelled)
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
            nbest=tuple(
                Alternative(hyp=written(text), score=score, log_prob=nats, flags=flags)
                for text, score, nats, flags in nbest
            ),
            length_ratio=num_tokens / max(1, self._num_src_tokens),
            flags=(*self._flags, *(flag for flag, is_set in last_flags.items() if is_set)),
            terms=tuple(self._terms),
        )


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
