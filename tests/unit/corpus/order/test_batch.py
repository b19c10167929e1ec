"""Splitting a batch by its number of padded tokens."""

from __future__ import annotations

import torch

from mtkit.corpus.order.batch import Source

REAL = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [0, 1, 1, 0, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)


def batch(real: torch.Tensor) -> Source:
    return Source(torch.arange(real.numel()).view(real.shape), real, torch.arange(real.size(1)).expand(real.shape))


def test_chunks_have_all_tokens_and_no_empty_columns():
    whole = batch(REAL)
    chunks = whole.split_by_padded_tokens(12)
    assert [tuple(chunk.ids.shape) for chunk in chunks] == [(2, 5), (2, 3)]
    assert torch.equal(torch.cat([chunk.ids[chunk.real] for chunk in chunks]), whole.ids[whole.real])
    assert torch.equal(torch.cat([chunk.pos[chunk.real] for chunk in chunks]), whole.pos[whole.real])


def test_a_chunk_has_at_least_one_sentence():
    assert [chunk.ids.size(0) for chunk in batch(REAL).split_by_padded_tokens(3)] == [1, 1, 1, 1]
    assert len(batch(REAL).split_by_padded_tokens(1000)) == 1
    assert len(batch(REAL[:0]).split_by_padded_tokens(10)) == 1
    assert batch(torch.zeros_like(REAL)).split_by_padded_tokens(1000)[0].ids.shape == (4, 1)
