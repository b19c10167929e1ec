"""Segments: lines, or parts of long lines, that are translated as one; splitting lines and merging the results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from mtkit.search.constraints.forbidden import TokenBytes
from mtkit.search.interface import Hypothesis
from mtkit.search.length_penalty import LengthPenalty
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.tokenizer import Tokenizer, TokenizerPair
from mtkit.translate.alignment import links_of, word_pairs
from mtkit.translate.constraints import LineRequest, TokenConstraints
from mtkit.translate.long_lines import split_line
from mtkit.translate.translation import Alternative, Translation

_LINE_BREAK = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_MAX_PARTS = 1 << 24  # parts of a line, for numbering them


@dataclass
class Segment:
    """A line, or a part of a long line, that is translated as one."""

    line: int  # number of the line in the whole text, from 1
    number: int  # among all segments of all lines; the same in every batch and window
    leading_space: str  # white space of the line before the segment
    ids: list[int]
    flags: tuple[str, ...] = ()
    constraints: TokenConstraints | None = None
    hypotheses: list[Hypothesis] = field(default_factory=list)  # best first
    violates_exclusion: bool = False  # all hypotheses contain an excluded text
    texts: list[str] = field(default_factory=list)  # of `hypotheses`

    def accept(self, hypotheses: list[Hypothesis], token_bytes: TokenBytes) -> None:
        """Store the hypotheses that contain no excluded text; all of them if none is without.

        Search excludes them too, but tokens that are forced by other constraints can spell an excluded text.
        """
        self.hypotheses, self.violates_exclusion = hypotheses, False
        if self.constraints is None or not self.constraints.exclude:
            return
        written = [b"".join(token_bytes.of_token[token] for token in h.tokens) for h in hypotheses]
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
) -> Iterator[Segment]:
    """Split lines into segments; a blank line has none.

    Args:
        requests: the lines.
        first: number of the first line.
        tokenizers: of both sides.
        max_length: a line of more source tokens becomes several segments (see long_lines.py), unless it has
            constraints; None: no line is split.
        split: False splits no line; lines that are too long are flagged.
    """
    tokenizer = tokenizers.src
    not_blank = [i for i, (text, _) in enumerate(requests) if text and not text.isspace()]

    def lengths(texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in tokenizer.encode(texts)]

    for i, ids in zip(not_blank, tokenizer.encode([requests[i].text for i in not_blank]), strict=True):
        number = (first + i) * _MAX_PARTS
        text, constraints = requests[i]
        flags = _unknown(ids, tokenizer)
        if max_length is None or len(ids) <= max_length:
            yield Segment(first + i, number, "", ids, flags, constraints)
            continue
        if constraints is not None or not split:
            yield Segment(first + i, number, "", ids, ("long", *flags), constraints)
            continue
        parts = split_line(text, lengths, max_length)
        for k, (part, part_ids) in enumerate(zip(parts, tokenizer.encode([p.text for p in parts]), strict=True)):
            flags = ("split", *_unknown(part_ids, tokenizer))
            yield Segment(first + i, number + k, part.leading_space, part_ids, flags)


def _unknown(ids: Sequence[int], tokenizer: Tokenizer) -> tuple[str, ...]:
    return ("unknown",) if tokenizer.vocab.unk in ids else ()


def merge(line: int, segments: Sequence[Segment], tokenizers: TokenizerPair, penalty: LengthPenalty) -> Translation:
    """Merge the translations of a line's segments into the translation of the line; empty for a blank line."""
    best = [segment.hypotheses[0] for segment in segments if segment.hypotheses]
    if not best:
        return Translation(line=line, hyp="")
    hyp = "".join(collapse_newlines(s.leading_space) + (s.texts[0] if s.hypotheses else "") for s in segments)
    log_probs = tuple(value for h in best for value in h.token_log_probs)
    log_prob = sum(h.log_prob for h in best)
    nbest = [(text, h.score, h.log_prob) for h, text in zip(segments[0].hypotheses, segments[0].texts, strict=True)]
    if len(segments) > 1:
        score = float(penalty.score(torch.tensor(log_prob), torch.tensor(len(log_probs))))
        nbest = [(hyp, score, log_prob)]
    flags = [flag for segment in segments for flag in segment.flags]
    if not all(h.finished for h in best):
        flags.append("limit")
    if any(segment.violates_exclusion for segment in segments):
        flags.append("excluded")
    num_tokens = sum(len(h.tokens) for h in best)
    ids = [token for h in best for token in (*h.tokens, tokenizers.tgt.vocab.eos)][:-1]
    return Translation(
        line=line,
        hyp=hyp,
        score=nbest[0][1],
        log_prob=log_prob,
        tokens=tuple(tokenizers.tgt.ids_to_tokens(ids)),
        token_log_probs=log_probs,
        alignment=_alignment(segments, tokenizers),
        nbest=tuple(Alternative(hyp=text, score=score, log_prob=log_prob) for text, score, log_prob in nbest),
        length_ratio=num_tokens / max(1, sum(len(segment.ids) for segment in segments)),
        flags=tuple(dict.fromkeys(flags)),
    )


def _alignment(segments: Sequence[Segment], tokenizers: TokenizerPair) -> tuple[tuple[int, int], ...]:
    """Word pairs of the whole line; empty without attention."""
    src: list[str] = []
    tgt: list[str] = []
    links: list[tuple[int, int]] = []
    for segment in segments:
        if not segment.hypotheses or segment.hypotheses[0].attention is None:
            continue
        src.append(segment.leading_space)
        tgt.append(segment.leading_space)
        pairs = links_of(segment.hypotheses[0].attention, len(segment.ids))
        links += [(s + len(src), t + len(tgt)) for s, t in pairs]
        for tokens, ids, tokenizer in (
            (src, segment.ids, tokenizers.src),
            (tgt, segment.hypotheses[0].tokens, tokenizers.tgt),
        ):
            new = tokenizer.ids_to_tokens(ids)
            # the tokenizer puts a mark before the first word; it is no space of the text
            tokens += [token.removeprefix(SPACE_MARK) if i == 0 else token for i, token in enumerate(new)]
    return word_pairs(links, src, tgt)


def collapse_newlines(text: str) -> str:
    """The text with every line break, of any script, as a space."""
    return _LINE_BREAK.sub(" ", text)
