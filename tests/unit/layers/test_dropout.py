"""Dropout with masks from random bytes."""

import pytest
import torch

from mtkit.layers.dropout import Dropout, random_bytes


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_dropout_rate_and_expectation(p):
    torch.manual_seed(1)
    x = torch.ones(400_000)
    y = Dropout(p).train()(x)
    dropped = float((y == 0).float().mean())
    assert abs(dropped - p) < 0.5 / 256 + 5 * (p * (1 - p) / 400_000) ** 0.5
    assert abs(float(y.mean()) - 1) < 0.01


def test_every_byte_of_the_random_words_is_uniform():
    torch.manual_seed(2)
    mask = (random_bytes(torch.Size([100_000, 8])) >= 128).float().mean(0)
    assert mask.sub(0.5).abs().max() < 5 * 0.5 / 100_000**0.5


def test_masks_of_all_types_are_those_of_the_seed():
    masks = []
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        torch.manual_seed(4)
        y = Dropout(0.25)(torch.ones(7, 13, dtype=dtype))
        assert y.dtype == dtype
        masks.append(y != 0)
    assert torch.equal(masks[0], masks[1])
    assert torch.equal(masks[1], masks[2])


def test_identity_in_evaluation_and_at_zero():
    x = torch.randn(5, 3)
    assert Dropout(0.4).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


def test_masks_depend_on_torchs_seed():
    torch.manual_seed(3)
    first = Dropout(0.5).train()(torch.ones(3, 7))
    torch.manual_seed(3)
    assert torch.equal(first, Dropout(0.5).train()(torch.ones(3, 7)))


def test_gradient_has_the_same_mask():
    x = torch.ones(1000, requires_grad=True)
    y = Dropout(0.25).train()(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_probability_outside_zero_to_one_is_rejected():
    with pytest.raises(ValueError, match=r"1\.5"):
        Dropout(1.5)
