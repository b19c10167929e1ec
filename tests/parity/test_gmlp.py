"""gMLP against the paper's equations, one entry at a time; its first gate; sentences beyond its matrix."""

import math

import pytest
import torch
from torch.testing import assert_close

from mtkit.errors import DataError
from mtkit.layers.attention import AttentionParts
from mtkit.layers.cache import EmptyState
from mtkit.layers.positions import Position
from mtkit.layers.sizes import Heads
from mtkit.layers.variants.config import GatedMLPConfig

D, E, N = 4, 6, 9


def build(**keys):
    torch.manual_seed(0)
    parts = AttentionParts(d_model=D, heads=Heads(2, 2, 2), position=Position(), causal=False, dropout=0.0, norm="none")
    return GatedMLPConfig(d_inner=E, max_length=N, **keys).build(parts).double()


def shaken(layer):
    for parameter in layer.parameters():
        parameter.data.normal_()
    return layer


def gelu(x):
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def by_hand(layer, x, spatial):
    """Equations 1 to 4 for one sentence x [length, D], whose tokens are at positions 0, 1, ..."""
    u, u_bias, v, v_bias = layer.inner.weight, layer.inner.bias, layer.outer.weight, layer.outer.bias
    length, half = len(x), E // 2
    z = [[gelu(float(u[e] @ x[i] + u_bias[e])) for e in range(E)] for i in range(length)]
    normed = []
    for i in range(length):
        mean = sum(z[i][half:]) / half
        variance = sum((each - mean) ** 2 for each in z[i][half:]) / half
        scale = [(each - mean) / math.sqrt(variance + layer.norm.eps) for each in z[i][half:]]
        normed.append([float(g * s + b) for g, s, b in zip(layer.norm.weight, scale, layer.norm.bias, strict=True)])
    y = torch.zeros(length, D, dtype=torch.float64)
    for i in range(length):
        gated = []
        for e in range(half):
            gate = sum(float(spatial(i, j)) * normed[j][e] for j in range(length)) + float(layer.spatial_bias[i])
            gated.append(z[i][e] * gate)
        y[i] = v @ torch.tensor(gated, dtype=torch.float64) + v_bias
    return y


@torch.no_grad()
@pytest.mark.parametrize("toeplitz", [False, True])
def test_equals_the_papers_equations(toeplitz):
    layer = shaken(build(toeplitz=toeplitz))
    weight = layer.spatial.weight
    x = torch.randn(3, 8, D, dtype=torch.float64)
    real = torch.tensor([[1] * 8, [1] * 5 + [0] * 3, [0] * 4 + [1] * 4]).bool()  # padding on either side
    pos = (real.cumsum(1) - 1).clamp(min=0)
    found, state = layer(x, pos, real=real)
    assert isinstance(state, EmptyState)
    for b in range(3):
        spatial = (lambda i, j: weight[i - j + N - 1, 0]) if toeplitz else lambda i, j: weight[i, j]
        assert_close(found[b, real[b]], by_hand(layer, x[b, real[b]], spatial))


@torch.no_grad()
def test_the_gate_begins_as_the_identity():
    """The paper, sec. 2.1: with W near 0 and b = 1 each block begins as a feed-forward layer."""
    layer = build()
    x = torch.randn(2, 7, D, dtype=torch.float64)
    found, _ = layer(x, torch.arange(7).expand(2, -1))
    half = torch.nn.functional.gelu(layer.inner(x))[..., : E // 2]
    assert_close(found, layer.outer(half), rtol=0, atol=0.05 * float(half.abs().max()))
    assert not torch.equal(found, layer.outer(half))


def test_refused():
    layer, x = build(), torch.zeros(1, N + 1, D, dtype=torch.float64)
    with pytest.raises(DataError, match=r"a sentence of 10 tokens is longer than the 9 positions of gMLP; raise max_"):
        layer(x, torch.arange(N + 1).unsqueeze(0))
    pos = torch.arange(2).unsqueeze(0)
    with pytest.raises(ValueError, match="cannot decode step by step"):
        layer(x[:, :2], pos, past=layer(x[:, :2], pos)[1])
    with pytest.raises(ValueError, match=r"^d_inner: 5 is odd"):
        GatedMLPConfig(d_inner=5)
