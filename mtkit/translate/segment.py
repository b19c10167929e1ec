"""A line and the stretches of it that are translated as one, cut and put together again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from mtkit.search.constraints.forbidden import Spellings
from mtkit.search.interface import Hypothesis
from mtkit.search.length_penalty import LengthPenalty
from mtkit.text.tokenizer import Tokenizer, TokenizerPair
from mtkit.translate.alignment import SPACE_MARK, links_of, word_pairs
from mtkit.translate.constraints import Asked, PieceDemands
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
    is_breached: bool = False  # all that was found has something excluded in it
    texts: list[str] = field(default_factory=list)  # of `found`

    def take(self, found: list[Hypothesis], spellings: Spellings) -> None:
        """Keep the hypotheses, or those without what is excluded, which pieces that must come can have spelled."""
        self.found, self.is_breached = found, False
        if self.demands is None or not self.demands.exclude:
            return
        written = [b"".join(spellings.of_piece[token] for token in h.tokens) for h in found]
        faultless = [
            h
            for h, text in zip(found, written, strict=True)
            if not any(excluded in text for excluded in self.demands.exclude)
        ]
        self.found = faultless or found
        self.is_breached = not faultless


def cut(
    asked: Sequence[Asked], first: int, tokenizers: TokenizerPair, longest: int | None, *, split: bool = True
) -> Iterator[Segment]:
    """The segments of the lines, which are numbered from `first`; a blank line has none.

    A line of more than `longest` pieces becomes several (see long_lines.py); one with demands on it does not, nor does
    any if `split` is False.
    """
    tokenizer = tokenizers.src
    spoken = [i for i, (line, _) in enumerate(asked) if line and not line.isspace()]

    def lengths(texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in tokenizer.encode(texts)]

    for i, ids in zip(spoken, tokenizer.encode([asked[i].text for i in spoken]), strict=True):
        number = (first + i) * _PARTS
        line, demands = asked[i]
        flags = _unknown(ids, tokenizer)
        if longest is None or len(ids) <= longest:
            yield Segment(first + i, number, "", ids, flags, demands)
            continue
        if demands is not None or not split:
            yield Segment(first + i, number, "", ids, ("long", *flags), demands)
            continue
        parts = split_line(line, lengths, longest)
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
    if any(segment.is_breached for segment in segments):
        flags.append("excluded")
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
