"""What decoder inputs and objectives need to know of the target vocabulary."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TargetPieces:
    """Ids of the target side.

    Attributes:
        size: V, all pieces.
        first: of those that text consists of; they are first ... size - 1.
        pad: fills a batch.
        unk: a piece that the vocabulary lacks.
        bos: what the decoder reads first.
        eos: ends a sentence.
    """

    size: int
    first: int
    pad: int
    unk: int
    bos: int
    eos: int
