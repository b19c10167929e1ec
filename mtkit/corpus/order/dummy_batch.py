"""Dummy batches of a given size, for measurements of time and memory."""

from __future__ import annotations

from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.collate import collate
from mtkit.text.vocab import Vocab


def dummy_batch(sentences: int, length: int, src: Vocab, tgt: Vocab) -> Batch:
    """A micro-batch without padding that repeats the last token of each vocabulary; `length` includes eos."""
    src_rows, tgt_rows = ([[vocab.size - 1] * (length - 1)] * sentences for vocab in (src, tgt))
    return collate(src_rows, tgt_rows, list(range(sentences)), src, tgt)
