"""The ids that have a meaning of their own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Vocab:
    """The size of a vocabulary and its special ids, V = `size`.

    Attributes:
        size: number of pieces, the special and reserved ones included.
        pad: fills a batch; never scored.
        unk: a piece that the vocabulary lacks.
        bos: what the decoder reads first.
        eos: ends a sentence, on both sides.
    """

    size: int
    pad: int
    unk: int
    bos: int
    eos: int
