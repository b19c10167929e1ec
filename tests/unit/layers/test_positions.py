"""Properties of position encodings."""

from typing import get_args

import pytest
import torch

from mtkit.errors import DataError
from mtkit.layers.cache import KVCache
from mtkit.layers.config import LearnedConfig, LinearScaling, NoPositionConfig, NTKScaling, RoPEConfig, SinusoidalConfig
from mtkit.layers.kinds import PositionConfig
from mtkit.layers.positions import MAX_CACHED
from mtkit.layers.sizes import Heads
from mtkit.layers.softmax import DotProductAttention, causal, full
from mtkit.layers.variants.config import DeBERTaConfig, ShawConfig, T5BiasConfig, TransformerXLConfig, TUPEConfig
from tests.toy.attention import self_attention

D, B, T, S = 16, 2, 5, 7
HEADS = Heads(num_heads=4, num_kv_heads=2, head_dim=4)
UNION = get_args(PositionConfig)
VARIANTS = [
    RoPEConfig(rotate_half=True, scaling=NTKScaling()),
    RoPEConfig(scaling=LinearScaling(factor=3.0)),
    ShawConfig(max_distance=3),
    T5BiasConfig(num_buckets=8, max_distance=16),
    DeBERTaConfig(max_distance=3),
]
IN_ATTENTION = [*(kind() for kind in UNION if kind.acts_in_attention), *VARIANTS]  # a new kind is tested by itself
RELATIVE = [config for config in IN_ATTENTION if not isinstance(config, TUPEConfig)]  # TUPE scores absolute positions
names = pytest.mark.parametrize("config", IN_ATTENTION, ids=lambda config: config.kind)


def attention(config, pattern=causal):
    """Attention in float64 with distinct values of all parameters."""
    position = config.build(D, HEADS, layers=1, causal=pattern is causal).layers[0]
    layer = self_attention(D, HEADS, position=position, causal=pattern is causal).double()
    for p in layer.parameters():
        p.data.add_(torch.randn_like(p) * 0.3)
    return layer


def positions(first=0, length=T):
    return torch.arange(first, first + length).expand(B, -1)


@pytest.mark.parametrize("config", RELATIVE, ids=lambda config: config.kind)
@pytest.mark.parametrize("pattern", [causal, full])
def test_shifting_all_positions_changes_nothing(config, pattern):
    layer, x = attention(config, pattern), torch.randn(B, T, D, dtype=torch.float64)
    here, there = layer(x, positions())[0], layer(x, positions(first=40))[0]
    angles_are_float32 = config.kind in ("rope", "transformer_xl")
    assert torch.allclose(here, there, atol=1e-5 if angles_are_float32 else 1e-9)


@names
def test_order_of_tokens_changes_the_output(config):
    layer, x = attention(config, full), torch.randn(B, T, D, dtype=torch.float64)
    swapped = x[:, [0, 1, 3, 2, 4]]
    assert not torch.allclose(layer(x, positions())[0][:, 4], layer(swapped, positions())[0][:, 4])


@names
@pytest.mark.parametrize("first", [0, 9])
def test_cached_steps_equal_the_whole_sequence(config, first):
    layer, x = attention(config), torch.randn(B, T, D, dtype=torch.float64)
    pos, past = positions(first), None
    whole, _ = layer(x, pos)
    for t in range(T):
        y, past = layer(x[:, t : t + 1], pos[:, t : t + 1], past=past)
        assert torch.allclose(y[:, 0], whole[:, t])


@names
def test_left_padding_changes_nothing(config):
    layer, x = attention(config), torch.randn(B, T, D, dtype=torch.float64)
    padded = torch.cat([torch.randn(B, 2, D, dtype=torch.float64), x], dim=1)
    pos = torch.cat([torch.zeros(B, 2, dtype=torch.int64), positions()], dim=1)
    real = torch.arange(T + 2).expand(B, -1) >= 2
    assert torch.allclose(layer(padded, pos, real=real)[0][:, 2:], layer(x, positions())[0])


@names
def test_fewer_or_more_queries_than_keys(config):
    position = config.build(D, HEADS, layers=1, causal=False).layers[0]
    attend = DotProductAttention(position, dropout=0.0)
    for length in (0, 1, 11):
        q, k = torch.randn(B, 4, length, 4), torch.randn(B, 2, S, 4)
        y, _ = attend(q, positions(3, length), KVCache.of(k, k, positions(0, S), None), None)
        assert y.shape == (B, 4, length, 4)


@names
def test_gradcheck(config):
    layer = attention(config)
    x = torch.randn(1, 3, D, dtype=torch.float64, requires_grad=True)
    pos, real = torch.arange(3).unsqueeze(0), torch.tensor([[True, True, False]])
    weights = tuple(layer.position.parameters())

    def run(x, *changed):
        named = dict(zip((name for name, _ in layer.position.named_parameters()), changed, strict=True))
        with torch.nn.utils.stateless._reparametrize_module(layer.position, named):
            return layer(x, pos, real=real)[0]

    assert torch.autograd.gradcheck(run, (x, *weights), fast_mode=True)


@pytest.mark.parametrize("config", [ShawConfig(), TransformerXLConfig(), DeBERTaConfig()], ids=lambda c: c.kind)
def test_layers_have_separate_parameters(config):
    one, other = config.build(D, HEADS, layers=2, causal=True).layers
    table = {id(p) for p in (one.table.parameters() if config.kind == "deberta" else ())}
    assert {id(p) for p in one.parameters()} & {id(p) for p in other.parameters()} == table


def test_t5_layers_share_their_table():
    one, other = T5BiasConfig().build(D, HEADS, layers=2, causal=True).layers
    assert one is other


def test_encodings_of_embeddings_have_no_parameters_in_layers():
    for config in (SinusoidalConfig(), LearnedConfig(), NoPositionConfig()):
        built = config.build(D, HEADS, layers=3, causal=True)
        assert len(built.layers) == 3
        assert not list(built.layers[0].parameters())


def test_t5_has_its_scale_in_the_initial_weights():
    plain, t5 = (attention(config) for config in (NoPositionConfig(), T5BiasConfig()))
    assert t5.position.scale(4) == 1
    assert t5.position.query_init_gain(4) == plain.position.scale(4)


@pytest.mark.parametrize("rotate_half", [False, True])
def test_rope_is_the_same_for_cached_and_uncached_positions(rotate_half):
    rope = RoPEConfig(rotate_half=rotate_half).module(8, Heads(1, 1, 8), causal=False)
    pos = torch.tensor([[0, 1, MAX_CACHED - 1], [MAX_CACHED - 1, 5, 7]])
    x = torch.randn(2, 1, 3, 8)
    expected = rope.rotate_pairs(x, rope.rotations(pos).unsqueeze(1))
    torch.testing.assert_close(rope.rotate(x, pos), expected)
    beyond = pos.masked_fill(pos == 7, MAX_CACHED)
    torch.testing.assert_close(rope.rotate(x, beyond)[0], expected[0])
    assert not torch.allclose(rope.rotate(x, beyond)[1, 0, 2], expected[1, 0, 2])


def test_rope_rejects_an_odd_head_dim():
    with pytest.raises(ValueError, match="5 is odd"):
        RoPEConfig().module(5, Heads(1, 1, 5), causal=False)


def test_interpolated_learned_positions_lie_between_rows():
    layer = LearnedConfig(max_length=3, interpolation_factor=2.0).module(4, HEADS, causal=False)
    embedded = layer.embed(torch.zeros(1, 5, 4), torch.arange(5).unsqueeze(0))[0]
    table = layer.table.weight
    assert torch.allclose(embedded[::2], table)
    assert torch.allclose(embedded[1], (table[0] + table[1]) / 2)
    with pytest.raises(DataError, match="longer than the 5 learned positions"):
        layer.embed(torch.zeros(1, 1, 4), torch.tensor([[5]]))
