"""Size and special ids of a vocabulary."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Vocab:
    """The size of a vocabulary and its special ids, V = `size`.

    Attributes:
        size: number of tokens, including special and reserved ones.
        pad: fills a batch; excluded from the loss.
        unk: replaces text that no other token covers.
        bos: the first token that the decoder reads.
        eos: ends a sentence, on both sides.
    """

    size: int
    pad: int
    unk: int
    bos: int
    eos: int
