"""Top-k and log-normaliser against torch."""

from __future__ import annotations

import math

import pytest
import torch

from mtkit.search import fast_topk
from mtkit.search.fast_topk import TopK, append_columns, log_normaliser, top_k


@pytest.mark.parametrize("vocab", [3, 100, 511, 512, 513, 1000, 8000, 8191])
@pytest.mark.parametrize("count", [1, 5, 40, 70])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_top_k_of_each_row(vocab, count, dtype):
    logits = torch.randn(9, vocab, generator=torch.Generator().manual_seed(vocab)).to(dtype)
    top, truth = top_k(logits, count), logits.float().topk(min(count, vocab))
    assert torch.equal(top.value, truth.values)
    assert torch.equal(logits.float().gather(1, top.column), truth.values)
    assert all(len(set(row)) == len(row) for row in top.column.tolist())


@pytest.mark.parametrize("vocab", [3, 100, 513, 8191])
@pytest.mark.parametrize("count", [1, 5, 40, 400])
def test_top_k_of_the_rows_of_a_beam(vocab, count):
    generator = torch.Generator().manual_seed(count)
    logits, offset = torch.randn(12, vocab, generator=generator), 3 * torch.randn(12, generator=generator)
    top = top_k(logits, count, offset, rows_per_beam=4)
    assert top.value.shape == (3, min(count, 4 * vocab))
    row = top.row
    assert torch.equal(row // 4, torch.arange(3).unsqueeze(1).expand_as(row))
    assert torch.equal(logits[row, top.column], top.value)
    truth = (logits + offset.unsqueeze(1)).view(3, 4 * vocab).topk(top.value.size(1)).values
    assert torch.equal(top.value + offset[row], truth)


@pytest.mark.parametrize("shift", [-0.5, -3, -100])
@pytest.mark.parametrize("spread", [0.01, 3, 60])
def test_negative_logits_whose_integer_order_is_reversed(shift, spread):
    generator = torch.Generator().manual_seed(2)
    logits, offset = torch.randn(12, 1000, generator=generator) + shift, spread * torch.randn(12, generator=generator)
    offset[5] = float("-inf")  # a dead hypothesis
    top = top_k(logits, 7, offset, rows_per_beam=4)
    truth = (logits + offset.unsqueeze(1)).view(3, 4000).topk(7).values
    assert torch.equal(top.value + offset[top.row], truth)


def test_columns_are_valid_even_if_few_are_allowed():
    logits = torch.full((8, 8191), float("-inf"))  # not divisible into blocks: one column is left over
    logits[:, 8190] = 1.0
    top = top_k(logits, 20, torch.zeros(8), rows_per_beam=4)
    assert ((top.column >= 0) & (top.column < 8191)).all()
    assert (top.column[:, :4] == 8190).all()
    assert (top.value[:, 4:] == float("-inf")).all()


def test_required_columns_are_appended_once():
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
    top = TopK(torch.tensor([[3.0, 2.0]]), torch.zeros(1, 2, dtype=torch.int64), torch.tensor([[3, 2]]))
    value, row, column = append_columns(top, logits, torch.tensor([[2, 0, 0, -1]]))
    assert row.tolist() == [[0] * 6]
    assert column.tolist() == [[3, 2, 2, 0, 0, 0]]
    assert value.tolist() == [[3.0, 2.0, -math.inf, 0.0, -math.inf, -math.inf]]


@pytest.fixture(params=[True, False], ids=["by exp", "by softmax"])
def _normaliser(request, monkeypatch) -> None:
    """Each of the two computations, on any processor."""
    monkeypatch.setattr(fast_topk, "exp_is_fast", lambda: request.param)


@pytest.mark.usefixtures("_normaliser")
@pytest.mark.parametrize("vocab", [3, 700, 8000])
@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_log_normaliser(vocab, scale):
    logits = torch.randn(150, vocab, generator=torch.Generator().manual_seed(1)) * scale
    torch.testing.assert_close(log_normaliser(logits), logits.double().logsumexp(1).float(), atol=2e-5, rtol=1e-6)
    assert log_normaliser(logits[:0]).shape == (0,)


@pytest.mark.usefixtures("_normaliser")
@pytest.mark.parametrize("shift", [-1e4, -100.0, -87.0, 80.0, 88.0, 1e4])
def test_log_normaliser_of_logits_whose_exponentials_leave_the_range(shift):
    logits = torch.randn(20, 300, generator=torch.Generator().manual_seed(1)).double()
    logits[::2] += shift  # the other rows are inside the range
    found = log_normaliser(logits.float())
    torch.testing.assert_close(found, logits.float().double().logsumexp(1).float(), atol=2e-5, rtol=1e-6)
    alone = torch.cat([log_normaliser(row.unsqueeze(0)) for row in logits.float()])
    assert torch.equal(found, alone)


@pytest.mark.usefixtures("_normaliser")
def test_log_normaliser_is_not_finite_after_an_overflow():
    logits = torch.zeros(3, 40)
    logits[0, 5], logits[1, 7] = float("nan"), float("inf")
    assert log_normaliser(logits).isfinite().tolist() == [False, False, True]
