"""Performer: causal chunks and the size of the state."""

import pytest
import torch

from mtkit.layers.variants.config import PerformerConfig
from tests.unit.layers.toy_kernels import B, D, build, x_and_pos


def test_gradients_of_causal_attention_equal_finite_differences():
    layer = build(PerformerConfig(num_features=5), causal=True)
    x, pos = torch.randn(1, 7, D, dtype=torch.float64, requires_grad=True), torch.arange(7).unsqueeze(0)
    assert torch.autograd.gradcheck(lambda x: layer(x, pos)[0], x, fast_mode=True)


def test_chunks_change_nothing(monkeypatch):
    layer, (x, pos) = build(PerformerConfig(), causal=True), x_and_pos()
    truth, _ = layer(x, pos)
    monkeypatch.setattr("mtkit.layers.variants.linear_attention.CHUNK_SIZE", 4)
    assert torch.allclose(layer(x, pos)[0], truth)


def test_the_state_does_not_grow():
    layer = build(PerformerConfig(), causal=True)
    sizes = {layer(*x_and_pos(length))[1].sums.shape for length in (2, 19)}
    assert sizes == {(B, 1, 256, 5)}


def test_an_encoder_refuses_a_past():
    layer, (x, pos) = build(PerformerConfig()), x_and_pos()
    _, past = layer(x, pos)
    with pytest.raises(ValueError, match="step by step"):
        layer(x, pos, past=past)
