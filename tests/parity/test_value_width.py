"""Values of another width than queries and keys (d_v, d_k), in every kind of attention, search and pruning."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from mtkit.compression.pruning import prune_heads
from mtkit.layers.attention import AttentionParts
from mtkit.layers.cache import KVCache
from mtkit.layers.config import FullAttentionConfig, RoPEConfig
from mtkit.layers.sizes import Heads
from mtkit.layers.variants.config import (
    BinaryPartitionConfig,
    LinformerConfig,
    LongformerConfig,
    LSHConfig,
    PerformerConfig,
    ShawConfig,
    StridedAttentionConfig,
    WindowAttentionConfig,
)
from mtkit.models.decoder_only.config import DecoderOnlyConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.weights import weights
from tests.toy.decoders import VOCAB, make_batch, make_model

D, H, K, V, T = 12, 2, 4, 6, 90
KINDS = [
    FullAttentionConfig(),
    WindowAttentionConfig(width=3),
    StridedAttentionConfig(stride=7),
    BinaryPartitionConfig(span_count=2),
    LinformerConfig(projected_length=5),
    PerformerConfig(num_features=9),
    LSHConfig(chunk_length=8),
]


def build(config, value_dim, positions=None, causal=False):
    torch.manual_seed(0)
    heads = Heads(H, H, K, value_dim)
    position = (positions or RoPEConfig()).build(D, heads, layers=1, causal=causal).layers[0]
    parts = AttentionParts(d_model=D, heads=heads, position=position, causal=causal, dropout=0.0, norm="none")
    return config.build(parts).double()


@pytest.mark.parametrize("config", KINDS, ids=lambda config: config.kind)
def test_kernels_are_linear_in_each_column_of_the_values(config):
    kernel = build(config, V).kernel
    q, k, v = (torch.randn(2, H, T, width, dtype=torch.float64) for width in (K, K, V))
    pos = torch.arange(T).expand(2, -1)
    whole, _ = kernel(q, KVCache.of(k, v, pos, None), None)
    assert whole.shape == (2, H, T, V)
    for first in (0, V - K):  # values as wide as the keys
        part, _ = kernel(q, KVCache.of(k, v[..., first : first + K], pos, None), None)
        assert_close(whole[..., first : first + K], part)


@pytest.mark.parametrize("value_dim", [2, 6])
@pytest.mark.parametrize("causal", [False, True])
def test_full_attention_is_that_of_torch(value_dim, causal):
    layer = build(FullAttentionConfig(), value_dim, causal=causal)
    assert layer.out.weight.shape == (D, H * value_dim)
    x, pos = torch.randn(2, 9, D, dtype=torch.float64), torch.arange(9).expand(2, -1)
    q, new = layer.project(x, pos, None)
    expected = F.scaled_dot_product_attention(q, new.k, new.v, is_causal=causal)
    assert_close(layer(x, pos)[0], layer.out(expected.transpose(1, 2).flatten(2)))


def test_longformer_and_shaw_build_vectors_of_the_values_width():
    longformer = build(LongformerConfig(width=2), V)
    shaw = build(FullAttentionConfig(), V, ShawConfig())
    x, pos = torch.randn(2, 70, D, dtype=torch.float64), torch.arange(70).expand(2, -1)
    assert longformer(x, pos)[0].shape == shaw(x, pos)[0].shape == x.shape
    assert shaw.position.value.weight.size(1) == V


SIZES = {"d_model": 8, "d_ff": 8, "num_heads": 2, "dropout": 0.0, "head_dim": 4, "value_head_dim": 6}
MODELS = [
    TransformerConfig(encoder_layers=1, decoder_layers=2, **SIZES),
    DecoderOnlyConfig(decoder_layers=2, **SIZES),
]


@pytest.mark.parametrize("config", MODELS, ids=lambda config: config.kind)
def test_steps_of_the_decoder_equal_the_whole_sentence(config):
    model, batch = make_model(config).eval(), make_batch()
    whole = model.decode_states(batch.source, batch.target)
    state = model.start(batch.source)
    state = state.select_rows(torch.arange(3).repeat_interleave(2))  # two equal hypotheses each
    for t in range(batch.target.ids.size(1)):
        step = model.step(batch.target.ids[:, t].repeat_interleave(2), state)
        state = step.state.select_rows(torch.tensor([1, 0, 3, 2, 5, 4]))
        real = batch.target.real[:, t].repeat_interleave(2)
        assert_close(step.hidden[real], whole[:, t].repeat_interleave(2, 0)[real])


def test_pruned_heads_keep_their_values():
    config = MODELS[0]
    model, batch = make_model(config).eval(), make_batch()
    tensors = {name: tensor.clone() for name, tensor in weights(model).items()}
    names = ["encoder.0.attention"] + [
        f"decoder.{n}.{kind}" for n in (0, 1) for kind in ("attention", "cross_attention")
    ]
    for name in names:  # head 0 has no output, so that the loss of it changes nothing
        tensors[f"{name}.out.weight"][:, : config.heads.value_dim] = 0
    model.load_state_dict(tensors, strict=False)
    small, kept = prune_heads(config, tensors, {name: [1] for name in names})
    pruned = small.build(VOCAB, VOCAB).double().eval()
    pruned.load_state_dict(kept, strict=False)
    expected = model.decode_states(batch.source, batch.target)
    assert_close(pruned.decode_states(batch.source, batch.target)[batch.target.real], expected[batch.target.real])
