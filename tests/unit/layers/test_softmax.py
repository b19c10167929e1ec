"""Scaled dot-product attention: properties of the function and of its decoder state."""

import pytest
import torch

from mtkit.layers.cache import KVCache
from mtkit.layers.positions import Position
from mtkit.layers.sizes import Heads
from mtkit.layers.softmax import DotProductAttention, additive_mask, causal, full
from tests.toy.attention import self_attention

D, H, B, T = 12, 3, 2, 6


def attention(pattern=causal, kv_heads=H):
    return self_attention(D, Heads(H, kv_heads, D // H), causal=pattern is causal).double()


def attend(q, pos, keys):
    return DotProductAttention(Position(), 0.0)(q, pos, keys, keys.visible(full, pos))


@pytest.mark.parametrize("kv_heads", [1, 3])
@pytest.mark.parametrize("first", [0, 7])
@pytest.mark.parametrize("has_initial_state", [False, True])
def test_cached_steps_equal_the_whole_sequence(kv_heads, first, has_initial_state):
    layer, x = attention(kv_heads=kv_heads), torch.randn(B, T, D, dtype=torch.float64)
    pos = torch.arange(first, first + T).expand(B, -1)
    whole, _ = layer(x, pos)
    past = layer.initial_state(B, x.device) if has_initial_state else None
    for t in range(T):
        y, past = layer(x[:, t : t + 1], pos[:, t : t + 1], past=past)
        assert torch.allclose(y[:, 0], whole[:, t])


def test_grouped_heads_with_equal_keys_and_values_are_multi_head():
    grouped, many = attention(kv_heads=1), attention(kv_heads=H)
    query, rest = grouped.query_key_value.weight[:D], grouped.query_key_value.weight[D:]
    key, value = rest.chunk(2)
    many.query_key_value.weight.data = torch.cat([query, key.repeat(H, 1), value.repeat(H, 1)]).detach()
    many.out.load_state_dict(grouped.out.state_dict())
    x, pos = torch.randn(B, T, D, dtype=torch.float64), torch.arange(T).expand(B, -1)
    assert torch.allclose(grouped(x, pos)[0], many(x, pos)[0])


def test_a_query_without_visible_keys_yields_zeros():
    q, k = torch.randn(B, H, T, 4), torch.randn(B, H, T, 4)
    real = torch.ones(B, T, dtype=torch.bool)
    real[1] = False
    y, weights = attend(q, torch.zeros(B, T, dtype=torch.int64), KVCache.of(k, k, real.long(), real))
    assert y[1].eq(0).all()
    assert weights[1].eq(0).all()
    assert y[0].ne(0).all()


def test_additive_and_bool_mask_agree():
    real = torch.arange(T) < torch.tensor([T - 2, T]).unsqueeze(1)
    mask = additive_mask(real, torch.float64)
    q, k, v = torch.randn(3, 2, H, T, 4, dtype=torch.float64)
    found, expected = (attend(q, real.long(), KVCache.of(k, v, real.long(), each)) for each in (mask, real))
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])


def test_left_padding_changes_nothing():
    layer, x = attention(), torch.randn(1, T, D, dtype=torch.float64)
    pos = torch.arange(T).unsqueeze(0)
    padded = torch.cat([torch.randn(1, 2, D, dtype=torch.float64), x], dim=1)
    padded_pos = torch.cat([torch.zeros(1, 2, dtype=torch.int64), pos], dim=1)
    real = torch.arange(T + 2).unsqueeze(0) >= 2
    assert torch.allclose(layer(padded, padded_pos, real=real)[0][:, 2:], layer(x, pos)[0])


def test_gradients_equal_finite_differences():
    layer = attention()
    pos = torch.arange(3).unsqueeze(0)
    real = torch.tensor([[True, True, False]])
    x = torch.randn(1, 3, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x, pos, real=real)[0], x)


def test_training_keeps_a_plain_cache():
    """Only decoding starts from a shared-prefix cache."""
    _, state = attention()(torch.randn(B, T, D, dtype=torch.float64), torch.arange(T).expand(B, -1))
    assert type(state) is KVCache
