"""A line and the stretches of it that are translated as one, cut and put together again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from mtkit.search.hypothesis import Hypothesis
from mtkit.search.length_penalty import LengthPenalty
from mtkit.text.tokenizer import Tokenizer, TokenizerPair
from mtkit.translate.alignment import SPACE_MARK, links_of, word_pairs
from mtkit.translate.demands import Line, PieceDemands, in_pieces, text_of
from mtkit.translate.long_lines import split_line
from mtkit.translate.translation import Alternative, Translation

_BREAK = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_PARTS = 1 << 24  # parts that a line may have, for numbering them


@dataclass
class Segment:
    """What is translated as one: a line, or a part of a long one."""

    line: int  # number in the whole text, from 1
    number: int  # of all segments of all lines; the same in every batch and window
    space: str  # white space of the line before it
    ids: list[int]
    flags: tuple[str, ...] = ()
    demands: PieceDemands | None = None
    found: list[Hypothesis] = field(default_factory=list)  # best first
    texts: list[str] = field(default_factory=list)  # of `found`

    def keep_allowed(self, tokenizer: Tokenizer) -> bool:
        """Drop hypotheses with something excluded in them. If none is left, demand more, drop none, and say False."""
        if self.demands is None:
            return True
        breaches = [self.demands.breaches(h.tokens, tokenizer) for h in self.found]
        kept = [h for h, breach in zip(self.found, breaches, strict=True) if not breach]
        if kept or not self.found:
            self.found = kept
            return True
        spelled = [stretch for breach in breaches for stretch in breach]
        self.demands = replace(self.demands, exclude=tuple(dict.fromkeys((*self.demands.exclude, *spelled))))
        return False


def cut(
    given: Sequence[Line], first: int, tokenizers: TokenizerPair, longest: int | None, *, split: bool = True
) -> Iterator[Segment]:
    """The segments of the lines, which are numbered from `first`; a blank line has none.

    A line of more than `longest` pieces becomes several (see long_lines.py); one with demands on it does not, nor does
    any if `split` is False.

    Raises:
        DataError: as `in_pieces`.
    """
    tokenizer, lines = tokenizers.src, [text_of(line) for line in given]
    spoken = [i for i, line in enumerate(lines) if line and not line.isspace()]

    def lengths(texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in tokenizer.encode(texts)]

    for i, ids in zip(spoken, tokenizer.encode([lines[i] for i in spoken]), strict=True):
        number = (first + i) * _PARTS
        line = given[i]
        demands = None if isinstance(line, str) else in_pieces(line, first + i, tokenizers.tgt)
        flags = _unknown(ids, tokenizer)
        if longest is None or len(ids) <= longest:
            yield Segment(first + i, number, "", ids, flags, demands)
            continue
        if demands is not None or not split:
            yield Segment(first + i, number, "", ids, ("long", *flags), demands)
            continue
        parts = split_line(lines[i], lengths, longest)
        for k, (part, piece_ids) in enumerate(zip(parts, tokenizer.encode([p.text for p in parts]), strict=True)):
            flags = ("split", *_unknown(piece_ids, tokenizer))
            yield Segment(first + i, number + k, part.space, piece_ids, flags)


def _unknown(ids: Sequence[int], tokenizer: Tokenizer) -> tuple[str, ...]:
    return ("unknown",) if tokenizer.vocab.unk in ids else ()


def join(line: int, segments: Sequence[Segment], tokenizers: TokenizerPair, penalty: LengthPenalty) -> Translation:
    """The translation of a line from those of its segments; none if it is blank."""
    best = [segment.found[0] for segment in segments if segment.found]
    if not best:
        return Translation(line=line, hyp="")
    hyp = "".join(one_line(s.space) + (s.texts[0] if s.found else "") for s in segments)
    log_probs = tuple(value for h in best for value in h.piece_log_probs)
    log_prob = sum(h.log_prob for h in best)
    nbest = [(text, h.score, h.log_prob) for h, text in zip(segments[0].found, segments[0].texts, strict=True)]
    if len(segments) > 1:
        score = float(penalty.score(torch.tensor(log_prob), torch.tensor(len(log_probs))))
        nbest = [(hyp, score, log_prob)]
    flags = [flag for segment in segments for flag in segment.flags]
    if not all(h.finished for h in best):
        flags.append("limit")
    num_pieces = sum(len(h.tokens) for h in best)
    tokens = [token for h in best for token in (*h.tokens, tokenizers.tgt.vocab.eos)][:-1]
    return Translation(
        line=line,
        hyp=hyp,
        score=nbest[0][1],
        log_prob=log_prob,
        pieces=tuple(tokenizers.tgt.pieces(tokens)),
        piece_log_probs=log_probs,
        alignment=_alignment(segments, tokenizers),
        nbest=tuple(Alternative(hyp=text, score=value, log_prob=own) for text, value, own in nbest),
        length_ratio=num_pieces / max(1, sum(len(segment.ids) for segment in segments)),
        flags=tuple(dict.fromkeys(flags)),
    )


def _alignment(segments: Sequence[Segment], tokenizers: TokenizerPair) -> tuple[tuple[int, int], ...]:
    """Word pairs of the whole line; empty if there is no attention."""
    src: list[str] = []
    tgt: list[str] = []
    links: list[tuple[int, int]] = []
    for segment in segments:
        if not segment.found or segment.found[0].attention is None:
            continue
        src.append(segment.space)
        tgt.append(segment.space)
        pairs = links_of(segment.found[0].attention, len(segment.ids))
        links += [(s + len(src), t + len(tgt)) for s, t in pairs]
        for known, ids, tokenizer in (
            (src, segment.ids, tokenizers.src),
            (tgt, segment.found[0].tokens, tokenizers.tgt),
        ):
            pieces = tokenizer.pieces(ids)
            # the mark before the first word is no space of the text
            known += [piece.removeprefix(SPACE_MARK) if i == 0 else piece for i, piece in enumerate(pieces)]
    return word_pairs(links, src, tgt)


def one_line(text: str) -> str:
    """The text with every line break, of whatever alphabet, as a space."""
    return _BREAK.sub(" ", text)
