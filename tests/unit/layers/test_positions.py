"""Properties that position encodings must have."""

import pytest
import torch

from mtkit.errors import DataError
from mtkit.layers.attention.masks import causal, full
from mtkit.layers.attention.multi_head import SelfAttention
from mtkit.layers.attention.softmax import SoftmaxAttention
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.heads import Heads
from mtkit.layers.positions.alibi import ALiBiConfig
from mtkit.layers.positions.base import NoPositionConfig
from mtkit.layers.positions.deberta import DeBERTaConfig
from mtkit.layers.positions.learned import Learned, LearnedConfig
from mtkit.layers.positions.rope import KNOWN, LinearScaling, NTKScaling, RoPE, RoPEConfig
from mtkit.layers.positions.shaw import ShawConfig
from mtkit.layers.positions.sinusoidal import SinusoidalConfig
from mtkit.layers.positions.t5 import T5BiasConfig
from mtkit.layers.positions.transformer_xl import TransformerXLConfig

D, B, T, S = 16, 2, 5, 7
HEADS = Heads(num_heads=4, num_kv_heads=2, head_dim=4)
RELATIVE = [
    RoPEConfig(),
    RoPEConfig(half_split=True, scaling=NTKScaling()),
    RoPEConfig(scaling=LinearScaling(factor=3.0)),
    ALiBiConfig(),
    ShawConfig(max_distance=3),
    T5BiasConfig(num_buckets=8, max_distance=16),
    TransformerXLConfig(),
    DeBERTaConfig(max_distance=3),
]
names = pytest.mark.parametrize("config", RELATIVE, ids=lambda config: config.kind)


def attention(config, pattern=causal):
    """A layer in float64 whose every parameter has a value of its own."""
    position = config.build(D, HEADS, layers=1, causal=pattern is causal).layers[0]
    kernel = SoftmaxAttention(position=position, pattern=pattern, dropout=0.0)
    layer = SelfAttention(D, HEADS, position=position, kernel=kernel).double()
    for p in layer.parameters():
        p.data.add_(torch.randn_like(p) * 0.3)
    return layer


def places(first=0, length=T):
    return torch.arange(first, first + length).expand(B, -1)


@names
@pytest.mark.parametrize("pattern", [causal, full])
def test_shifting_all_positions_changes_nothing(config, pattern):
    layer, x = attention(config, pattern), torch.randn(B, T, D, dtype=torch.float64)
    here, there = layer(x, places())[0], layer(x, places(first=40))[0]
    angles_are_float32 = config.kind in ("rope", "transformer_xl")
    assert torch.allclose(here, there, atol=1e-5 if angles_are_float32 else 1e-9)


@names
def test_order_matters(config):
    """Two tokens that trade places are seen from their distances."""
    layer, x = attention(config, full), torch.randn(B, T, D, dtype=torch.float64)
    swapped = x[:, [0, 1, 3, 2, 4]]
    assert not torch.allclose(layer(x, places())[0][:, 4], layer(swapped, places())[0][:, 4])


@names
@pytest.mark.parametrize("first", [0, 9])
def test_cached_steps_equal_the_whole_sequence(config, first):
    layer, x = attention(config), torch.randn(B, T, D, dtype=torch.float64)
    pos, past = places(first), None
    whole, _ = layer(x, pos)
    for t in range(T):
        y, past = layer(x[:, t : t + 1], pos[:, t : t + 1], past=past)
        assert torch.allclose(y[:, 0], whole[:, t])


@names
def test_left_padding_changes_nothing(config):
    layer, x = attention(config), torch.randn(B, T, D, dtype=torch.float64)
    padded = torch.cat([torch.randn(B, 2, D, dtype=torch.float64), x], dim=1)
    pos = torch.cat([torch.zeros(B, 2, dtype=torch.int64), places()], dim=1)
    real = torch.arange(T + 2).expand(B, -1) >= 2
    assert torch.allclose(layer(padded, pos, real=real)[0][:, 2:], layer(x, places())[0])


@names
def test_queries_may_be_fewer_or_more_than_keys(config):
    position = config.build(D, HEADS, layers=1, causal=False).layers[0]
    kernel = SoftmaxAttention(position=position, pattern=full, dropout=0.0)
    for length in (0, 1, 11):
        q, k = torch.randn(B, 4, length, 4), torch.randn(B, 2, S, 4)
        y, _ = kernel(q, places(3, length), KeyValues.of(k, k, places(0, S), None))
        assert y.shape == (B, 4, length, 4)


@names
def test_gradients_are_those_of_the_function(config):
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
def test_layers_have_parameters_of_their_own(config):
    one, other = config.build(D, HEADS, layers=2, causal=True).layers
    table = {id(p) for p in (one.table.parameters() if config.kind == "deberta" else ())}
    assert {id(p) for p in one.parameters()} & {id(p) for p in other.parameters()} == table


def test_t5_layers_share_their_table():
    one, other = T5BiasConfig().build(D, HEADS, layers=2, causal=True).layers
    assert one is other


def test_what_acts_on_embeddings_stays_out_of_the_layers():
    for config in (SinusoidalConfig(), LearnedConfig(), NoPositionConfig()):
        positions = config.build(D, HEADS, layers=3, causal=True)
        assert len(positions.layers) == 3
        assert not list(positions.layers[0].parameters())


def test_t5_does_not_scale_but_begins_as_if_it_did():
    plain, t5 = (attention(config) for config in (NoPositionConfig(), T5BiasConfig()))
    assert t5.position.scale(4) == 1
    assert t5.position.initial_query_gain(4) == plain.position.scale(4)


@pytest.mark.parametrize("half_split", [False, True])
def test_rope_turns_alike_whether_positions_are_known_or_not(half_split):
    rope = RoPE(8, base=1e4, divisor=1.0, half_split=half_split)
    pos = torch.tensor([[0, 1, KNOWN - 1], [KNOWN - 1, 5, 7]])
    x = torch.randn(2, 1, 3, 8)
    expected = rope.turn(x, rope.turns(pos).unsqueeze(1))
    torch.testing.assert_close(rope.rotate(x, pos), expected)
    beyond = pos.masked_fill(pos == 7, KNOWN)
    torch.testing.assert_close(rope.rotate(x, beyond)[0], expected[0])
    assert not torch.allclose(rope.rotate(x, beyond)[1, 0, 2], expected[1, 0, 2])


def test_odd_heads_cannot_be_rotated():
    with pytest.raises(ValueError, match="5 is odd"):
        RoPE(5, base=10.0, divisor=1.0, half_split=False)


def test_stretched_learned_positions_lie_between_rows():
    layer = Learned(4, max_length=3, stretch=2.0)
    found = layer.embed(torch.zeros(1, 5, 4), torch.arange(5).unsqueeze(0))[0]
    table = layer.table.weight
    assert torch.allclose(found[::2], table)
    assert torch.allclose(found[1], (table[0] + table[1]) / 2)
    with pytest.raises(DataError, match="longer than the 5 learned positions"):
        layer.embed(torch.zeros(1, 1, 4), torch.tensor([[5]]))
