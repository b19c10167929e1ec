"""A batch cut into parts."""

from __future__ import annotations

import torch

from mtkit.corpus.order.batch import Source

REAL = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [0, 1, 1, 0, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)


def batch(real: torch.Tensor) -> Source:
    return Source(torch.arange(real.numel()).view(real.shape), real, torch.arange(real.size(1)).expand(real.shape))


def test_parts_have_all_tokens_and_no_columns_without_one():
    whole = batch(REAL)
    parts = whole.parts(12)
    assert [tuple(part.ids.shape) for part in parts] == [(2, 5), (2, 3)]
    assert torch.equal(torch.cat([part.ids[part.real] for part in parts]), whole.ids[whole.real])
    assert torch.equal(torch.cat([part.pos[part.real] for part in parts]), whole.pos[whole.real])


def test_a_part_has_one_sentence_at_least():
    assert [part.ids.size(0) for part in batch(REAL).parts(3)] == [1, 1, 1, 1]
    assert len(batch(REAL).parts(1000)) == 1
    assert len(batch(REAL[:0]).parts(10)) == 1
    assert batch(torch.zeros_like(REAL)).parts(1000)[0].ids.shape == (4, 1)
