"""Tests for mtkit/layers/softmax.py."""

import pytest
import torch

from mtkit.layers.cache import MIN_KEYS
from mtkit.layers.softmax import softmax

WIDTHS = [1, 7, MIN_KEYS - 1, MIN_KEYS, MIN_KEYS + 5]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradient_equal_torch(width, dtype):
    generator = torch.Generator().manual_seed(width)
    scores = 3 * torch.randn(5, 2, 4, width, generator=generator, dtype=dtype)
    scores[0, 0, 0, : width // 2] = torch.finfo(dtype).min  # hidden keys
    grad = torch.randn(scores.shape, generator=generator, dtype=dtype)
    results = []
    for function in (softmax, lambda x: x.softmax(-1)):
        leaf = scores.clone().requires_grad_()
        weights = function(leaf)
        weights.backward(grad)
        results.append((weights.detach(), leaf.grad))
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(softmax(scores), results[1][0])


@pytest.mark.parametrize("width", WIDTHS)
def test_bf16_is_rounded_only_at_the_end(width):
    generator = torch.Generator().manual_seed(width)
    scores = (3 * torch.randn(50, width, generator=generator)).bfloat16()
    grad = torch.randn(50, width, generator=generator).bfloat16()
    leaf = scores.clone().requires_grad_()
    weights = softmax(leaf)
    exact = scores.double().softmax(-1)
    assert weights.dtype == torch.bfloat16
    assert torch.equal(weights, scores.float().softmax(-1).bfloat16())
    assert (weights - exact).norm() < 2.0**-9 * exact.norm()
    weights.backward(grad)
    own = weights.detach().double()  # the weights that were used
    expected = own * (grad - (own * grad).sum(-1, keepdim=True))
    assert (leaf.grad - expected).norm() <= 2.0**-8 * expected.norm() + 1e-6


def test_gradient_of_gradient_is_refused():
    leaf = torch.randn(3, 4, requires_grad=True)
    (grad,) = torch.autograd.grad(softmax(leaf).square().sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad.sum().backward()
