"""Small self-attention layers of every kind, for tests."""

from __future__ import annotations

import torch

from mtkit.layers.attention import AttentionParts
from mtkit.layers.config import NoPositionConfig
from mtkit.layers.sizes import Heads

D, B, T = 8, 2, 19
HEADS = Heads(num_heads=2, num_kv_heads=1, head_dim=4)


def build(config, positions=None, causal=False, norm="none", seed=0):
    """A layer in float64 with distinct values of all parameters."""
    torch.manual_seed(seed)
    position = (positions or NoPositionConfig()).build(D, HEADS, layers=1, causal=causal).layers[0]
    parts = AttentionParts(d_model=D, heads=HEADS, position=position, causal=causal, dropout=0.0, norm=norm)
    layer = config.build(parts).double()
    for p in layer.parameters():
        p.data.add_(torch.randn_like(p) * 0.3)
    return layer


def x_and_pos(length=T, first=0):
    """Random tokens [B, T, D] and their positions [B, T]."""
    return torch.randn(B, length, D, dtype=torch.float64), torch.arange(first, first + length).expand(B, -1)


def kind(config):
    """Name of a config, as a test id."""
    return config.kind
