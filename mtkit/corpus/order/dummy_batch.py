"""Sentences that say nothing, to find out what a batch of some size costs."""

from __future__ import annotations

from mtkit.corpus.order.batch import Batch
from mtkit.corpus.order.collate import collate
from mtkit.text.vocab import Vocab


def made_up_batch(sentences: int, length: int, src: Vocab, tgt: Vocab) -> Batch:
    """A micro-batch without padding: the last piece of each vocabulary over and over; length counts eos."""
    src_rows, tgt_rows = ([[vocab.size - 1] * (length - 1)] * sentences for vocab in (src, tgt))
    return collate(src_rows, tgt_rows, list(range(sentences)), src, tgt)
