"""Properties that every kind of attention must have."""

import pytest
import torch

from mtkit.layers.attention.masks import additive_mask, causal, full
from mtkit.layers.attention.multi_head import Heads, SelfAttention
from mtkit.layers.attention.softmax import SoftmaxAttention
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.positions.base import Position

D, H, B, T = 12, 3, 2, 6


def attention(pattern=causal, kv_heads=H):
    kernel = SoftmaxAttention(position=Position(), pattern=pattern, dropout=0.0)
    return SelfAttention(D, Heads(H, kv_heads, D // H), position=Position(), kernel=kernel).double()


@pytest.mark.parametrize("kv_heads", [1, 3])
@pytest.mark.parametrize("first", [0, 7])
def test_cached_steps_equal_the_whole_sequence(kv_heads, first):
    layer, x = attention(kv_heads=kv_heads), torch.randn(B, T, D, dtype=torch.float64)
    pos = torch.arange(first, first + T).expand(B, -1)
    whole, _ = layer(x, pos)
    past = None
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


def test_a_query_that_sees_nothing_yields_zeros():
    kernel = SoftmaxAttention(position=Position(), pattern=full, dropout=0.0)
    q, k = torch.randn(B, H, T, 4), torch.randn(B, H, T, 4)
    real = torch.ones(B, T, dtype=torch.bool)
    real[1] = False
    y, weights = kernel(q, torch.zeros(B, T, dtype=torch.int64), KeyValues.of(k, k, real.long(), real))
    assert y[1].eq(0).all()
    assert weights[1].eq(0).all()
    assert y[0].ne(0).all()


def test_what_is_visible_may_be_added():
    real = torch.arange(T) < torch.tensor([T - 2, T]).unsqueeze(1)
    added = additive_mask(real, torch.float64)
    assert added.dtype == torch.float64
    assert torch.equal(added == 0, real)
    kernel = SoftmaxAttention(position=Position(), pattern=full, dropout=0.0)
    q, k, v = torch.randn(3, 2, H, T, 4, dtype=torch.float64)
    found, expected = (kernel(q, real.long(), KeyValues.of(k, v, real.long(), each)) for each in (added, real))
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])


def test_nothing_is_added_where_all_is_visible_or_some_row_sees_nothing():
    assert additive_mask(torch.ones(2, 3, dtype=torch.bool), torch.float32) is None
    blind = torch.tensor([[True, False], [False, False]])
    assert additive_mask(blind, torch.float32) is blind


def test_left_padding_changes_nothing():
    layer, x = attention(), torch.randn(1, T, D, dtype=torch.float64)
    pos = torch.arange(T).unsqueeze(0)
    padded = torch.cat([torch.randn(1, 2, D, dtype=torch.float64), x], dim=1)
    padded_pos = torch.cat([torch.zeros(1, 2, dtype=torch.int64), pos], dim=1)
    real = torch.arange(T + 2).unsqueeze(0) >= 2
    assert torch.allclose(layer(padded, padded_pos, real=real)[0][:, 2:], layer(x, pos)[0])


def test_gradients_are_those_of_the_function():
    layer = attention()
    pos = torch.arange(3).unsqueeze(0)
    real = torch.tensor([[True, True, False]])
    x = torch.randn(1, 3, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: layer(x, pos, real=real)[0], x)


def grow(cache, seed):
    k = torch.full((2, 1, 1, 3), float(seed))
    return cache.append(k, -k, torch.full((2, 1), cache.length))


def test_a_cache_is_a_value_although_it_writes_in_place():
    """Two continuations of one cache do not disturb each other, nor the cache they came from."""
    empty = torch.zeros(2, 1, 0, 3)
    stem = grow(grow(KeyValues.of(empty, empty, torch.zeros(2, 0, dtype=torch.int64), None), 1), 2)
    one, other = grow(grow(stem, 3), 4), grow(stem, 5)
    assert stem.k[0, 0, :, 0].tolist() == [1, 2]
    assert one.k[0, 0, :, 0].tolist() == [1, 2, 3, 4]
    assert other.k[0, 0, :, 0].tolist() == [1, 2, 5]
    assert other.v[1, 0, :, 0].tolist() == [-1, -2, -5]
    assert one.pos.tolist() == [[0, 1, 2, 3]] * 2


def test_selected_rows_grow_on_their_own():
    k = torch.arange(2.0).view(2, 1, 1, 1).expand(2, 1, 1, 3)
    cache = KeyValues.of(k, k, torch.zeros(2, 1, dtype=torch.int64), None)
    swapped = cache.select(torch.tensor([1, 0, 1]))
    new = torch.full((3, 1, 1, 3), 9.0)
    longer = swapped.append(new, new, torch.ones(3, 1, dtype=torch.int64))
    assert longer.k[:, 0, :, 0].tolist() == [[1, 9], [0, 9], [1, 9]]
    assert swapped.length == 1
