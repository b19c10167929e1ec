"""Properties of every attention kernel: padding, empty batches, gradients, cached steps."""

import pytest
import torch

from mtkit.layers.config import NoPositionConfig, RoPEConfig
from mtkit.layers.variants import binary_partition, sliding_window
from mtkit.layers.variants.config import (
    BinaryPartitionConfig,
    LinformerConfig,
    LongformerConfig,
    PerformerConfig,
    StridedAttentionConfig,
    WindowAttentionConfig,
)
from tests.unit.layers.toy_kernels import B, D, T, build, kind, x_and_pos

ENCODER = [
    WindowAttentionConfig(width=3),
    StridedAttentionConfig(stride=3),
    LongformerConfig(width=2, global_stride=7),
    BinaryPartitionConfig(span_count=1),
    LinformerConfig(projected_length=5, max_length=64),
    PerformerConfig(num_features=6),
]
DECODER = [
    WindowAttentionConfig(width=3),
    StridedAttentionConfig(stride=3),
    BinaryPartitionConfig(span_count=1),
    PerformerConfig(num_features=6),
]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(sliding_window, "MIN_BLOCK", 4)
    monkeypatch.setattr(binary_partition, "BLOCK", 4)


@pytest.mark.parametrize("config", ENCODER, ids=kind)
@pytest.mark.parametrize("norm", ["none", "rms", "layer"])
def test_padding_anywhere_and_other_sentences_change_nothing(config, norm):
    layer, (x, pos) = build(config, RoPEConfig(), norm=norm), x_and_pos()
    truth, _ = layer(x, pos)
    keep = torch.tensor([*range(5), *range(7, 15), *range(18, 24)])  # padding at 5, 6, 15 to 17 and from 24
    padded = torch.randn(B, 26, D, dtype=torch.float64)
    padded[:, keep] = x
    padded_pos, real = torch.zeros(B, 26, dtype=torch.int64), torch.zeros(B, 26, dtype=torch.bool)
    padded_pos[:, keep], real[:, keep] = pos, True
    assert torch.allclose(layer(padded, padded_pos, real=real)[0][:, keep], truth)
    assert torch.allclose(layer(x[1:], pos[1:])[0], truth[1:])


@pytest.mark.parametrize("config", DECODER, ids=kind)
@pytest.mark.parametrize("positions", [NoPositionConfig(), RoPEConfig()], ids=kind)
@pytest.mark.parametrize("prefix", [0, 1, 9])
def test_cached_steps_equal_the_whole_sequence(config, positions, prefix):
    layer, (x, pos) = build(config, positions, causal=True), x_and_pos(first=3)
    whole, _ = layer(x, pos)
    past = layer(x[:, :prefix], pos[:, :prefix])[1] if prefix else layer.initial_state(B, x.device)
    for t in range(prefix, T):
        y, past = layer(x[:, t : t + 1], pos[:, t : t + 1], past=past)
        assert torch.allclose(y[:, 0], whole[:, t])


@pytest.mark.parametrize("config", DECODER, ids=kind)
def test_selected_rows_of_the_state_follow_the_hypotheses(config):
    layer, (x, pos) = build(config, causal=True), x_and_pos()
    _, past = layer(x[:, :6], pos[:, :6])
    rows = torch.tensor([1, 1, 0])
    y, _ = layer(x[rows, 6:7], pos[rows, 6:7], past=past.index_select(rows))
    assert torch.allclose(y[:, 0], layer(x, pos)[0][rows, 6])


@pytest.mark.parametrize("config", ENCODER, ids=kind)
def test_a_sentence_of_padding_yields_zeros(config):
    layer, (x, pos) = build(config), x_and_pos()
    real = torch.tensor([[True], [False]]).expand(B, T)
    q, new = layer.project(x, pos, real)
    y, _ = layer.kernel(q, new, None)
    assert y[1].eq(0).all()
    assert y[0].ne(0).all()
    assert layer(x, pos, real=real)[0].isfinite().all()


@pytest.mark.parametrize("config", ENCODER, ids=kind)
@pytest.mark.parametrize("shape", [(0, 6), (2, 0), (0, 30)])
def test_empty_batches_pass(config, shape):
    layer = build(config)
    pos = torch.zeros(shape, dtype=torch.int64)
    y, _ = layer(torch.zeros(*shape, D, dtype=torch.float64), pos, real=torch.ones(shape, dtype=torch.bool))
    assert y.shape == (*shape, D)


@pytest.mark.parametrize("config", ENCODER, ids=kind)
def test_gradients_equal_finite_differences(config):
    layer = build(config)
    x, pos = torch.randn(1, 9, D, dtype=torch.float64, requires_grad=True), torch.arange(9).unsqueeze(0)
    real = torch.arange(9).unsqueeze(0) < 8
    assert torch.autograd.gradcheck(lambda x: layer(x, pos, real=real)[0], x, fast_mode=True)


def test_encoder_kernels_refuse_a_past():
    for config in (LongformerConfig(), LinformerConfig()):
        layer, (x, pos) = build(config), x_and_pos()
        _, past = layer(x, pos)
        with pytest.raises(ValueError, match="step by step"):
            layer(x, pos, past=past)
