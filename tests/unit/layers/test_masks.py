"""Attention masks."""

import torch

from mtkit.layers.softmax import Window, additive_mask, causal


def test_additive_mask_hides_padding():
    real = torch.arange(6) < torch.tensor([4, 6]).unsqueeze(1)
    mask = additive_mask(real, torch.float64)
    assert mask.dtype == torch.float64
    assert torch.equal(mask == 0, real)
    assert mask[~real].eq(torch.finfo(torch.float64).min).all()


def test_additive_mask_is_none_without_padding_and_bool_where_a_row_sees_nothing():
    assert additive_mask(torch.ones(2, 3, dtype=torch.bool), torch.float32) is None
    blind = torch.tensor([[True, False], [False, False]])
    assert additive_mask(blind, torch.float32) is blind


def test_patterns_by_position():
    pos = torch.arange(4).unsqueeze(0)
    assert causal(pos, pos)[0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    window = Window(before=1, after=2)
    assert window(pos, pos)[0].int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 1, 1]]
