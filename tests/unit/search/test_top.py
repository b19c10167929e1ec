"""The best pieces and the normaliser against torch."""

from __future__ import annotations

import pytest
import torch

from mtkit.search.fast_topk import log_normaliser, top_columns


@pytest.mark.parametrize("vocab", [3, 100, 511, 512, 513, 1000, 8000, 8191])
@pytest.mark.parametrize("count", [1, 5, 40, 70])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_top_columns(vocab, count, dtype):
    logits = torch.randn(9, vocab, generator=torch.Generator().manual_seed(vocab)).to(dtype)
    found, truth = top_columns(logits, count), logits.float().topk(min(count, vocab))
    assert torch.equal(found.value, truth.values)
    assert torch.equal(logits.float().gather(1, found.column), truth.values)
    assert all(len(set(row)) == len(row) for row in found.column.tolist())


@pytest.mark.parametrize("vocab", [3, 100, 513, 8191])
@pytest.mark.parametrize("count", [1, 5, 40, 400])
def test_rows_that_compete(vocab, count):
    generator = torch.Generator().manual_seed(count)
    logits, offset = torch.randn(12, vocab, generator=generator), 3 * torch.randn(12, generator=generator)
    found = top_columns(logits, count, offset, together=4)
    assert found.value.shape == (3, min(count, 4 * vocab))
    row = found.row + torch.arange(0, 12, 4).unsqueeze(1)
    assert torch.equal(logits[row, found.column], found.value)
    truth = (logits + offset.unsqueeze(1)).view(3, 4 * vocab).topk(found.value.size(1)).values
    assert torch.equal(found.value + offset[row], truth)


@pytest.mark.parametrize("shift", [-0.5, -3, -100])
@pytest.mark.parametrize("spread", [0.01, 3, 60])
def test_negative_logits(shift, spread):
    """Their order is not that of their bits."""
    generator = torch.Generator().manual_seed(2)
    logits, offset = torch.randn(12, 1000, generator=generator) + shift, spread * torch.randn(12, generator=generator)
    offset[5] = float("-inf")  # as of a hypothesis that lives no more
    found = top_columns(logits, 7, offset, together=4)
    truth = (logits + offset.unsqueeze(1)).view(3, 4000).topk(7).values
    row = found.row + torch.arange(0, 12, 4).unsqueeze(1)
    assert torch.equal(found.value + offset[row], truth)


def test_columns_exist_even_where_few_are_allowed():
    logits = torch.full((8, 8191), float("-inf"))  # of which the groups leave one over
    logits[:, 8190] = 1.0
    found = top_columns(logits, 20, torch.zeros(8), together=4)
    assert ((found.column >= 0) & (found.column < 8191)).all()
    assert (found.column[:, :4] == 8190).all()
    assert (found.value[:, 4:] == float("-inf")).all()


@pytest.mark.parametrize("vocab", [3, 700, 8000])
@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_log_normaliser(vocab, scale):
    logits = torch.randn(150, vocab, generator=torch.Generator().manual_seed(1)) * scale
    torch.testing.assert_close(log_normaliser(logits), logits.double().logsumexp(1).float(), atol=2e-5, rtol=1e-6)
    assert log_normaliser(logits[:0]).shape == (0,)
