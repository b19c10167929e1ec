"""Segments: lines, parts of long lines or single sentences, that are translated as one, and merged into lines again."""

from __future__ import annotations

import itertools
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mtkit.corpus.coverage import Doubts
from mtkit.search.hypothesis import Hypothesis, SentenceRequest
from mtkit.search.length_penalty import LengthPenalty
from mtkit.text.normalise import NO_SPACE, SPACE_MARK, OuterSpace, outer_space, speaker_dash
from mtkit.text.spans import (
    begins_message,
    find_spans,
    is_in_capitals,
    is_spaced,
    lower_capitals,
    needs_translation,
    to_capitals,
)
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.alignment import Replacement, moved_pairs, word_links, words_of
from mtkit.translate.lines import MAX_CHUNK, UNCONSTRAINED, Line, text_of
from mtkit.translate.removal import Removal
from mtkit.translate.translation import FIDELITY_FLAGS, Alternative, Translation, UnmatchedWord


@dataclass
class Segment:
    """A line, or a part of a long line, that is translated as one."""

    line: int  # number of the line in the whole text, from 1
    number: int  # among all segments of all lines; the same in every batch and window
    leading_space: str  # white space of the line before the segment
    text: str
    ids: list[int]
    trailing_space: str = ""  # white space at the end of the line, after its last segment
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
    dropped: Sequence[UnmatchedWord] = ()  # words of the text
    invented: Sequence[UnmatchedWord] = ()  # words of the best translation

    def spell(self, pair: TokenizerPair) -> tuple[Sequence[str], Sequence[str]]:
        """The tokens of the text and of the best hypothesis, with U+2581 for a space."""
        if self.spelled is not None:
            return self.spelled
        text = self.text if self.removal is None else self.removal.rest
        return pair.spell("src", self.ids, text), pair.spell("tgt", self.hypotheses[0].tokens, text)

    def mark(self, doubts: Doubts, pair: TokenizerPair) -> None:
        """Store the words without partners, and their flags."""
        texts = self.text, self.hypotheses[0].text
        sides = [
            [
                UnmatchedWord(word, _word_text(text, word, tokens[token]), probability)
                for token, probability in of_side
                if 0 <= (word := words_of(tokens)[token]) < len(text.split())
            ]
            for of_side, tokens, text in zip(doubts, self.spell(pair), texts, strict=True)
        ]
        self.dropped, self.invented = sides
        self.flags = (*self.flags, *("dropped",) * bool(sides[0]), *("invented",) * bool(sides[1]))

    def accept(self, hypotheses: list[Hypothesis], token_bytes: Sequence[bytes]) -> None:
        """Store the hypotheses that contain no excluded text; all of them if none is without.

        Search excludes them too, but tokens that are forced by other constraints can spell an excluded text.
        """

        def is_valid(hypothesis: Hypothesis) -> bool:
            text = b"".join(token_bytes[token] for token in hypothesis.tokens)
            return not any(excluded in text for excluded in self.request.exclude)

        valid = [h for h in hypotheses if is_valid(h)] if self.request.exclude else hypotheses
        self.hypotheses, self.violates_exclusion = valid or hypotheses, not valid


def _word_text(text: str, word: int, token: str) -> str:
    """The word of a text without punctuation at its ends; the token, in scripts without spaces between words."""
    token, whole = token.strip(SPACE_MARK), text.split()[word]
    inner = [place for place, character in enumerate(whole) if character.isalnum()]
    return whole[inner[0] : inner[-1] + 1] if inner and any(map(is_spaced, token)) else token


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
    """Split lines into segments; a blank line and one that is left have none. A speaker's dash stays before its line.

    Args:
        lines: with constraints as ids, see `tokenize_constraints`.
        first: number of the first line.
        tokenizers: of both sides.
        max_length: a line of more source tokens becomes several segments (see `split_line`), unless texts are
            included or excluded; a prefix is that of the first segment. None: no line is split.
        split: False splits no line that is too long; such lines are flagged.
        sentences: every sentence becomes a segment; None: in lines of several sentences without constraints.
        removes: a line that is not too long without its spans is read without them, and one is left as it is that has
            letters in spans alone, or begins as a message of ICU, whose branches are texts of their own.
    """
    split = split and max_length is not None
    max_length = sys.maxsize if max_length is None else max_length
    part_length = max_length if split else sys.maxsize

    def may_split(line: _SourceLine) -> bool:
        return (split or sentences is not False) and not (line.request.include or line.request.exclude)

    def is_by_sentences(line: _SourceLine) -> bool:
        return may_split(line) and (not line.request.is_constrained if sentences is None else sentences)

    def is_whole(line: _SourceLine) -> bool:
        """Return whether the line is one segment if it has few tokens."""
        if len(line.text) > MAX_CHUNK and may_split(line):
            return False
        if not is_by_sentences(line):
            return True
        from mtkit.text.sentences import sentence_ends  # its patterns take long to compile

        # where every sentence is a segment, white space at the ends is no part of one
        return not (sentences and line.text != line.text.strip()) and next(sentence_ends(line.text), None) is None

    sources = list(_read_lines(lines, first, tokenizers, leaves=removes))
    whole = [line for line in sources if is_whole(line)]
    read = tokenizers.read("src", [line.text for line in whole])
    ids_of = {line.number: ids for line, ids in zip(whole, read, strict=True)}
    for line in sources:
        ids, removal = ids_of.get(line.number), None
        is_long = ids is None or len(ids) > max_length
        if ids and is_long and removes and may_split(line):
            ids, removal = _without_spans(line.text, ids, tokenizers, max_length)
            is_long = removal is None
        if ids is None or (is_long and may_split(line)):
            yield from _split_line(line, tokenizers, part_length, sentences=is_by_sentences(line), removes=removes)
        else:
            yield Segment(
                line=line.number,
                number=line.number * _MAX_PARTS,
                leading_space=line.space.before,
                trailing_space=line.space.after,
                text=line.text,
                ids=ids,
                flags=("long",) * is_long + _unknown(ids, tokenizers.src),
                request=line.request,
                is_in_capitals=line.is_in_capitals,
                end=line.length,
                removal=removal,
            )


@dataclass(frozen=True)
class _SourceLine:
    """A line that is not blank, as it is tokenized: normalised, and in lower case if it was in capitals."""

    number: int
    text: str
    space: OuterSpace  # white space at the ends that the text lacks, and the dash of a speaker
    length: int  # characters before normalisation
    request: SentenceRequest
    is_in_capitals: bool


def _is_left(line: Line) -> bool:
    """Return whether a line is written as it is; one without any letter is not, as digits may be a model's language."""
    text = text_of(line)
    is_free = isinstance(line, str) or not line.request.is_constrained
    return is_free and (begins_message(text) or (not needs_translation(text) and any(map(str.isalpha, text))))


def _read_lines(lines: Sequence[Line], first: int, tokenizers: TokenizerPair, *, leaves: bool) -> Iterator[_SourceLine]:
    for number, line in enumerate(lines, start=first):
        text, space = text_of(line), NO_SPACE
        request = UNCONSTRAINED if isinstance(line, str) else line.request
        length, in_capitals = len(text), False
        if tokenizers.config.normaliser != "none":
            space, text = outer_space(text), tokenizers.prepare("src", text)
        if not request.is_constrained:
            dash = speaker_dash(text)
            space, text = OuterSpace(space.before + dash, space.after), text[len(dash) :]
            in_capitals = tokenizers.config.robustness > 0 and is_in_capitals(text)
        if text and not text.isspace() and not (leaves and _is_left(line)):
            text = lower_capitals(text) if in_capitals else text
            yield _SourceLine(number, text, space, length, request, in_capitals)


def _without_spans(
    text: str, ids: list[int], tokenizers: TokenizerPair, max_length: int
) -> tuple[list[int], Removal | None]:
    """The ids of a line without its spans, if it has some and is not too long then; otherwise those that it has."""
    if spans := find_spans(text):
        removal = Removal.of(text, spans)
        (rest,) = tokenizers.read("src", [removal.rest])
        if removal.has_words and len(rest) <= max_length:
            return rest, removal
    return ids, None


def _split_line(
    line: _SourceLine, tokenizers: TokenizerPair, max_length: int, *, sentences: bool, removes: bool
) -> Iterator[Segment]:
    """The segments of a line, of which the first and the last have the white space at its ends.

    The last one ends where the line does, from which the normaliser may have dropped characters.
    """

    def lengths(texts: Sequence[str]) -> list[int]:
        read = [Removal.of(text, find_spans(text)).rest for text in texts] if removes else texts
        return [len(ids) for ids in tokenizers.read("src", read)]

    from mtkit.text.sentences import split_sentences  # as in split_lines

    number, end, segment = line.number * _MAX_PARTS, 0, None
    before, request = line.space.before, line.request
    for chunk in cut_into_chunks(line.text):
        parts = split_line(chunk, lengths, max_length)
        is_cut = not sentences or len(parts) > len(split_sentences(chunk))
        for (leading_space, part), ids in zip(parts, tokenizers.read("src", [p for _, p in parts]), strict=True):
            if segment is not None:
                yield segment
            end += len(leading_space) + len(part)
            flags = ("split",) * is_cut + _unknown(ids, tokenizers.src)
            is_short = not removes or len(ids) <= max_length
            ids, removal = (ids, None) if is_short else _without_spans(part, ids, tokenizers, max_length)
            segment = Segment(
                line=line.number,
                number=number,
                leading_space=before + leading_space,
                text=part,
                ids=ids,
                flags=flags,
                request=request if ids else UNCONSTRAINED,
                is_in_capitals=line.is_in_capitals,
                end=end,
                removal=removal,
            )
            before, number = "", number + 1
            request = UNCONSTRAINED if ids else request  # the prefix begins the first translation
    if segment is not None:
        segment.trailing_space, segment.end = line.space.after, line.length
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
    parts: list[str] = []
    for half, size in zip(halves, lengths(halves), strict=True):
        parts += [half] if len(half) == 1 or size <= max_length else _halved(half, lengths, max_length)
    return parts


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
        self._dropped: list[UnmatchedWord] = []
        self._invented: list[UnmatchedWord] = []
        self._replaced: list[Replacement] = []
        self._length = 0  # characters before any was replaced
        self._is_finished, self._violates_exclusion, self._is_in_capitals = True, False, False
        self._attention: list[tuple[int, int, Any]] = []  # of the tokens as spelled, with white space; see word_links
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
        self._dropped += _in_line(segment.dropped, [*self._src[:-1], segment.leading_space])
        self._invented += _in_line(segment.invented, self._hyp)
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
        self._attention.append((*offsets, best.attention[: len(tgt), : len(src)]))
        for tokens, new in ((self._src_spelled, src), (self._tgt_spelled, tgt)):
            # the tokenizer puts a mark before the first word; it is no space of the text
            tokens += [token.removeprefix(SPACE_MARK) if i == 0 else token for i, token in enumerate(new)]

    def translation(self, penalty: LengthPenalty, source: Line) -> Translation:
        """The translation of the line; empty for a blank line, and the line itself if it is left."""
        if self._first is None and not self._num_segments and _is_left(source):
            hyp, flags = collapse_newlines(text_of(source)), ("message",) if begins_message(text_of(source)) else ()
            return Translation(
                line=self.line, hyp=hyp, nbest=(Alternative(hyp=hyp, score=0.0, log_prob=0.0),), flags=flags
            )
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
        pairs = tuple(sorted(word_links(self._attention, self._src_spelled, self._tgt_spelled)))
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
            dropped=tuple(self._dropped),
            invented=tuple(self._invented),
        )


def _in_line(words: Sequence[UnmatchedWord], before: Sequence[str]) -> Iterator[UnmatchedWord]:
    """The words of a segment with their indices in the line, from the texts before it."""
    if words:
        text = "".join(before)
        first = len(text.split()) - (bool(text) and not text[-1].isspace())
        yield from (each._replace(word=each.word + first) for each in words)


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
