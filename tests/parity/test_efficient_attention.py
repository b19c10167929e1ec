"""Longformer against `transformers`; Linformer and Performer against the papers' equations as loops."""

import math

import pytest
import torch

from mtkit.layers.attention import AttentionParts
from mtkit.layers.cache import KVCache
from mtkit.layers.positions import Position
from mtkit.layers.sizes import Heads
from mtkit.layers.variants import sliding_window
from mtkit.layers.variants.config import LinformerConfig, LongformerConfig, PerformerConfig
from mtkit.layers.variants.linear_attention import orthogonal_features
from tests.parity.references import relative_error, shake, transformers_module
from tests.toy.attention import parts

D, H, K, B = 16, 2, 8, 2


def build(config, causal=False):
    parts = AttentionParts(
        d_model=D, heads=Heads(H, H, K), position=Position(), causal=causal, dropout=0.0, norm="none"
    )
    layer = config.build(parts)
    shake(layer)
    return layer


@pytest.mark.parametrize("rule", [{}, {"global_stride": 9}, {"global_bos": False, "global_stride": 5}])
def test_longformer_equals_transformers(rule, monkeypatch):
    monkeypatch.setattr(sliding_window, "MIN_BLOCK", 4)
    theirs = transformers_module("models.longformer.modeling_longformer")
    width, length = 4, 32
    config = theirs.LongformerConfig(
        hidden_size=D, num_attention_heads=H, attention_window=[2 * width], attention_probs_dropout_prob=0.0
    )
    layer = theirs.LongformerSelfAttention(config, layer_id=0).eval()
    ours = build(LongformerConfig(width=width, **rule))
    parts = (layer.query, layer.key, layer.value)
    for part, weight, bias in zip(
        parts, ours.query_key_value.weight.chunk(3), ours.query_key_value.bias.chunk(3), strict=True
    ):
        part.load_state_dict({"weight": weight, "bias": bias})
    layer.query_global.load_state_dict(ours.global_query.state_dict())
    weights, biases = ours.global_key_value.weight.chunk(2), ours.global_key_value.bias.chunk(2)
    layer.key_global.load_state_dict({"weight": weights[0], "bias": biases[0]})
    layer.value_global.load_state_dict({"weight": weights[1], "bias": biases[1]})
    x, pos = torch.randn(B, length, D), torch.arange(length).expand(B, -1)
    real = pos < torch.tensor([[length], [21]])
    is_global = ours.global_tokens.mask(pos, real)
    mask = torch.where(real, torch.where(is_global, 10000.0, 0.0), -10000.0)
    (truth,) = layer(
        x, attention_mask=mask, is_index_masked=mask < 0, is_index_global_attn=mask > 0, is_global_attn=True
    )
    found, _ = ours(x, pos, real=real)
    assert relative_error(found[real], ours.out(truth)[real]) < 1e-5


def test_linformer_equals_the_papers_equation():
    """Equation 7, one entry at a time."""
    length, projected_length = 7, 3
    ours = build(LinformerConfig(projected_length=projected_length, max_length=10)).kernel
    q, k, v = torch.randn(3, B, H, length, K)
    pos = torch.arange(length).expand(B, -1)
    found, _ = ours(q, KVCache.of(k, v, pos, None), None)
    e, f = ours.key_projection.weight, ours.value_projection.weight
    truth = torch.zeros_like(q)
    for i in range(length):
        scores = []
        for m in range(projected_length):
            projected = sum(e[j, m] * k[:, :, j] for j in range(length))
            scores.append((q[:, :, i] * projected).sum(-1) / math.sqrt(K))
        weight = torch.stack(scores).softmax(0)
        for m in range(projected_length):
            truth[:, :, i] += weight[m].unsqueeze(-1) * sum(f[j, m] * v[:, :, j] for j in range(length))
    assert relative_error(found, truth) < 1e-5


@pytest.mark.parametrize("causal", [False, True])
def test_performer_equals_the_papers_equations(causal):
    """Equations 4 to 7 with positive features, one pair at a time."""
    length = 6
    ours = build(PerformerConfig(num_features=11), causal).kernel
    q, k, v = torch.randn(3, B, H, length, K)
    pos = torch.arange(length).expand(B, -1)
    found, _ = ours(q, KVCache.of(k, v, pos, None), None)

    def phi(x):
        x = x / K**0.25
        features = [(x @ w - (x * x).sum(-1) / 2).exp() for w in ours.projection_matrix]
        return torch.stack(features, dim=-1) / math.sqrt(11)

    truth = torch.zeros_like(q)
    for i in range(length):
        seen = range(i + 1 if causal else length)
        weight = torch.stack([(phi(q[:, :, i]) * phi(k[:, :, j])).sum(-1) for j in seen])
        weight = weight / weight.sum(0)
        for j in seen:
            truth[:, :, i] += weight[j].unsqueeze(-1) * v[:, :, j]
    assert relative_error(found, truth) < 1e-5


def performer_error(num_features: int) -> float:
    """Root mean square distance from exact softmax attention, over 60 samples of the features."""
    torch.manual_seed(3)
    q, k, v = torch.randn(3, 4, 1, 24, K)
    q, k = q / 3, k / 3
    truth = (q @ k.mT / math.sqrt(K)).softmax(-1) @ v
    keys = KVCache.of(k, v, torch.arange(24).expand(4, -1), None)
    errors = []
    for _ in range(60):
        kernel = PerformerConfig(num_features=num_features).build_kernel(parts(D, Heads(1, 1, K)))
        errors.append((kernel(q, keys, None)[0] - truth).square().mean())
    return float(torch.stack(errors).mean().sqrt())


def test_performers_error_falls_with_the_root_of_the_number_of_features():
    few, many = performer_error(64), performer_error(4096)
    assert many < 0.03
    assert 0.4 < math.log(few / many) / math.log(4096 / 64) < 0.6


def test_features_are_orthogonal_with_norms_of_gaussian_vectors():
    features = orthogonal_features(24, 8)
    products = features[:8] @ features[:8].T
    assert torch.allclose(products, products.diag().diag(), atol=1e-4)
    lengths = orthogonal_features(4096, 8).square().sum(1)
    assert abs(float(lengths.mean()) - 8) < 0.4  # chi-square with 8 degrees
    assert abs(float(lengths.var()) - 16) < 3
