"""SSRU and average attention, the replacements of decoder self-attention."""

import pytest
import torch
import torch.nn.functional as F

from mtkit.layers.cache import KVCache
from mtkit.layers.sizes import Heads
from mtkit.layers.variants.config import AverageAttentionConfig, SSRUConfig
from mtkit.layers.variants.replacements import linear_recurrence
from tests.toy.attention import parts

D, B, T = 6, 3, 7
KINDS = {"ssru": SSRUConfig(), "average": AverageAttentionConfig(), "aan": AverageAttentionConfig(d_ff=9)}


def build(name):
    return KINDS[name].build(parts(D, Heads(2, 2, 3), causal=True)).double()


@pytest.fixture(params=KINDS)
def layer(request):
    return build(request.param)


def inputs():
    return torch.randn(B, T, D, dtype=torch.float64), torch.arange(T).expand(B, -1)


def test_cached_steps_equal_the_whole_sequence(layer):
    x, pos = inputs()
    whole, _ = layer(x, pos)
    past = None
    for begin, end in [(0, 1), (1, 2), (2, 5), (5, 7)]:
        y, past = layer(x[:, begin:end], pos[:, begin:end], past=past)
        assert torch.allclose(y, whole[:, begin:end])


def test_the_state_does_not_grow(layer):
    x, pos = inputs()
    shapes = [{n: t.shape for n, t in vars(layer(x[:, :n], pos[:, :n])[1]).items()} for n in (1, T)]
    assert shapes[0] == shapes[1]


def test_padding_changes_nothing(layer):
    x, pos = inputs()
    real = torch.ones(B, T, dtype=torch.bool)
    real[0, :2] = real[1, 3] = real[2, -1] = False
    y, state = layer(x, pos, real=real)
    for b in range(B):
        alone, end = layer(x[b : b + 1, real[b]], pos[b : b + 1, real[b]])
        assert torch.allclose(y[b, real[b]], alone[0])
        assert all(torch.allclose(a[b], c[0]) for a, c in zip(vars(state).values(), vars(end).values(), strict=True))


def test_following_tokens_change_nothing(layer):
    x, pos = inputs()
    other = x.clone()
    other[:, 4:] += 1
    assert torch.equal(layer(x, pos)[0][:, :4], layer(other, pos)[0][:, :4])


def test_gradients_equal_finite_differences(layer):
    pos, x = torch.arange(5).unsqueeze(0), torch.randn(1, 5, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x, pos)[0], x)


def test_selected_rows(layer):
    x, pos = inputs()
    _, past = layer(x[:, :3], pos[:, :3])
    rows = torch.tensor([2, 0])
    y, _ = layer(x[rows, 3:4], pos[rows, 3:4], past=past.index_select(rows))
    assert torch.allclose(y, layer(x, pos)[0][rows, 3:4])


def test_a_state_of_another_kind_is_refused(layer):
    x, pos = inputs()
    with pytest.raises(ValueError, match="not KVCache of another kind of layer"):
        layer(x, pos, past=KVCache.empty(B, 1, 3, x.device))


def test_ssru_equals_the_papers_equations():
    layer, (x, _) = build("ssru"), inputs()
    torch.nn.init.normal_(layer.forget.bias)
    found, _ = layer(x, torch.zeros(B, T, dtype=torch.int64))
    for b in range(B):
        c = torch.zeros(D, dtype=torch.float64)
        for t in range(T):
            f = torch.sigmoid(layer.forget.weight @ x[b, t] + layer.forget.bias)
            c = f * c + (1 - f) * (layer.value.weight @ x[b, t])
            assert torch.allclose(found[b, t], F.relu(c))


def test_average_attention_equals_the_papers_equations():
    layer, (x, pos) = build("aan"), inputs()
    found, _ = layer(x, pos)
    for b in range(B):
        for t in range(T):
            g = layer.feed_forward(sum(x[b, k] for k in range(t + 1)) / (t + 1))
            gates = torch.sigmoid(layer.gates.weight @ torch.cat([x[b, t], g]) + layer.gates.bias)
            assert torch.allclose(found[b, t], gates[:D] * x[b, t] + gates[D:] * g)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13])
def test_parallel_scan_equals_the_loop(length):
    decay, x = torch.rand(2, length, 3, dtype=torch.float64), torch.randn(2, length, 3, dtype=torch.float64)
    c = torch.zeros(2, 3, dtype=torch.float64)
    found = linear_recurrence(decay, x)
    for t in range(length):
        c = decay[:, t] * c + x[:, t]
        assert torch.allclose(found[:, t], c)
