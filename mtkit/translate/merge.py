"""Translations of segments become those of lines: texts and white space, scores, flags, alignment."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from mtkit.search.config import LengthPenalty
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.spans import find_spans, to_capitals
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.alignment import Replacement, links_of, moved_pairs, word_pairs
from mtkit.translate.segments import Segment
from mtkit.translate.translation import FIDELITY_FLAGS, Alternative, Translation

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
        self._alignment = _Alignment(tokenizers)

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
        self._alignment.add(segment, space)

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
            self._flags.update(dict.fromkeys(self._flags_of_cut_spans(hyp)))
            nbest = [(hyp, score, log_prob, tuple(flag for flag in self._flags if flag in FIDELITY_FLAGS))]
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
            nbest=tuple(
                Alternative(hyp=written(text), score=score, log_prob=nats, flags=flags)
                for text, score, nats, flags in nbest
            ),
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
