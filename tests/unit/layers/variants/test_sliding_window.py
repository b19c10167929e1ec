"""Sliding-window attention: blocks equal the masked whole."""

import pytest
import torch

from mtkit.layers.cache import KVCache
from mtkit.layers.config import FullAttentionConfig, NoPositionConfig, RoPEConfig
from mtkit.layers.variants import sliding_window
from mtkit.layers.variants.config import (
    ALiBiConfig,
    DeBERTaConfig,
    ShawConfig,
    StridedAttentionConfig,
    T5BiasConfig,
    TransformerXLConfig,
    WindowAttentionConfig,
)
from mtkit.layers.variants.sliding_window import is_position_sorted
from tests.unit.layers.toy_kernels import T, build, kind, x_and_pos

POSITIONS = [
    NoPositionConfig(),
    RoPEConfig(),
    ALiBiConfig(),
    ShawConfig(max_distance=2),
    T5BiasConfig(num_buckets=8, max_distance=16),
    TransformerXLConfig(),
    DeBERTaConfig(max_distance=2),
]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(sliding_window, "MIN_BLOCK", 4)


@pytest.mark.parametrize("positions", POSITIONS, ids=kind)
@pytest.mark.parametrize("config", [WindowAttentionConfig(width=3), StridedAttentionConfig(stride=3)], ids=kind)
@pytest.mark.parametrize("causal", [False, True])
def test_blocks_equal_the_masked_whole(config, positions, causal):
    layer, (x, pos) = build(config, positions, causal), x_and_pos(first=5)
    real = torch.arange(T).unsqueeze(0) < torch.tensor([[T], [11]])
    q, new = layer.project(x, pos, real)
    kernel = layer.kernel
    is_global = kernel.global_tokens.mask(pos, real)
    truth, _ = kernel.dot_product(q, pos, new, kernel.mask(pos, new, is_global))
    found = kernel.attend_blocked(q, new, is_global)
    seen = real[:, None, :, None].expand_as(truth)
    assert torch.allclose(found[seen], truth[seen])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [T, 40])
def test_a_window_as_wide_as_the_sentence_is_full_attention(causal, width):
    window, whole = (build(c, causal=causal) for c in (WindowAttentionConfig(width=width), FullAttentionConfig()))
    x, pos = x_and_pos()
    assert torch.allclose(window(x, pos)[0], whole(x, pos)[0])
    nowhere = torch.zeros_like(pos, dtype=torch.bool)
    blocked = window.kernel.attend_blocked(*window.project(x, pos, None), nowhere)
    assert torch.allclose(blocked, whole.kernel(*whole.project(x, pos, None), None)[0])


def test_a_window_ends_at_its_width():
    layer, (x, pos) = build(WindowAttentionConfig(width=3), causal=True), x_and_pos()
    x.requires_grad_()
    layer(x, pos)[0][0, 12].sum().backward()
    assert x.grad[0].abs().sum(-1).nonzero().flatten().tolist() == [9, 10, 11, 12]


@pytest.mark.parametrize(("pos", "real", "is_sorted"), [
    ([0, 1, 2, 3], [1, 1, 1, 1], True),
    ([7, 8, 9, 0], [1, 1, 1, 0], True),
    ([0, 0, 1, 2], [0, 1, 1, 1], True),
    ([0, 1, 0, 2], [1, 1, 0, 1], False),
    ([1, 0, 2, 3], [1, 1, 1, 1], False),
])  # fmt: skip
def test_order_of_positions_is_detected(pos, real, is_sorted):
    empty = torch.zeros(1, 1, 4, 1)
    keys = KVCache.of(empty, empty, torch.tensor([pos]), torch.tensor([real]).bool())
    assert is_position_sorted(keys) is is_sorted
