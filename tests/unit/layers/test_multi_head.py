"""Multi-head attention: grouped and multi-query heads, heads of any width, query/key norms."""

import pytest
import torch

from mtkit.layers.attention import CrossAttention
from mtkit.layers.config import RoPEConfig
from mtkit.layers.sizes import Heads
from tests.toy.attention import parts, self_attention

D, B, T = 12, 2, 5


def attention(heads, norm="none", position=None):
    layer = self_attention(D, heads, position=position, causal=True, norm=norm).double()
    for p in layer.parameters():
        p.data.add_(0.3 * torch.randn_like(p))
    return layer


def x_and_pos():
    return torch.randn(B, T, D, dtype=torch.float64), torch.arange(T).expand(B, -1)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("width", [3, 5])
def test_grouped_heads_equal_multi_head_attention_with_repeated_keys_and_values(kv_heads, width):
    grouped, many = attention(Heads(4, kv_heads, width)), attention(Heads(4, 4, width))
    for name in ("weight", "bias"):
        packed = getattr(grouped.query_key_value, name).data
        q, k, v = packed.split([4 * width, kv_heads * width, kv_heads * width])
        repeated = [x.unflatten(0, (kv_heads, width)).repeat_interleave(4 // kv_heads, 0) for x in (k, v)]
        getattr(many.query_key_value, name).data = torch.cat([q, *(x.flatten(0, 1) for x in repeated)])
    many.out.load_state_dict(grouped.out.state_dict())
    assert torch.allclose(grouped(*x_and_pos_seeded())[0], many(*x_and_pos_seeded())[0])


def x_and_pos_seeded():
    torch.manual_seed(5)
    return x_and_pos()


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_the_cache_holds_one_key_and_value_for_each_group(kv_heads):
    _, cache = attention(Heads(4, kv_heads, 6))(*x_and_pos())
    assert cache.k.shape == cache.v.shape == (B, kv_heads, T, 6)


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_normalised_queries_and_keys_do_not_depend_on_their_scale(norm):
    layer, (x, pos) = attention(Heads(2, 1, 6), norm), x_and_pos()
    truth, _ = layer(x, pos)
    layer.query_key_value.weight.data[:18].mul_(50)  # queries and keys
    layer.query_key_value.bias.data[:18].mul_(50)
    assert torch.allclose(layer(x, pos)[0], truth, atol=1e-4)  # the norm's epsilon


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_norms_come_before_the_rotation(norm):
    """A rotation keeps lengths, so scores of normalised heads are bounded by the square of the gain over sqrt(K)."""
    rope = RoPEConfig(base=100.0).module(D, Heads(2, 2, 4), causal=True)
    layer, (x, pos) = attention(Heads(2, 2, 4), norm, rope), x_and_pos()
    layer.query_norm.weight.data.fill_(1)
    if norm == "layer":
        layer.query_norm.bias.data.zero_()
    q, _ = layer.project(1000 * x, pos, None)
    assert torch.allclose(q.norm(dim=-1), torch.full((), 2.0, dtype=torch.float64), atol=1e-4)


def test_cross_attention_normalises_queries_and_keys():
    layer = CrossAttention(parts(D, Heads(2, 1, 4), norm="rms")).double()
    memory, pos = x_and_pos()
    keys = layer.project(memory, pos, torch.ones(B, T, dtype=torch.bool))
    assert torch.allclose(keys.k.norm(dim=-1), torch.full((), 2.0, dtype=torch.float64), atol=1e-4)
    truth, _ = layer(memory, pos, keys)
    layer.query.weight.data.mul_(30)
    assert torch.allclose(layer(memory, pos, keys)[0], truth, atol=1e-4)
