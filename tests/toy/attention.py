"""Attention layers and kernels with the settings that tests rarely change."""

from __future__ import annotations

from mtkit.layers.attention.config import FullAttentionConfig
from mtkit.layers.attention.kernel import TokenMixer
from mtkit.layers.attention.multi_head import AttentionParts
from mtkit.layers.attention.softmax import SoftmaxAttention
from mtkit.layers.heads import Heads
from mtkit.layers.key_types import QKNorm
from mtkit.layers.positions.base import Position


def parts(
    d_model: int, heads: Heads, *, position: Position | None = None, causal: bool = False, norm: QKNorm = "none"
) -> AttentionParts:
    """Arguments of attention without dropout; without positions if `position` is None."""
    position = Position() if position is None else position
    return AttentionParts(d_model=d_model, heads=heads, position=position, causal=causal, dropout=0.0, norm=norm)


def self_attention(d_model: int, heads: Heads, **keys: object) -> TokenMixer:
    """Self-attention to all tokens; see `parts`."""
    return FullAttentionConfig().build(parts(d_model, heads, **keys))


def softmax_kernel(position: Position, *, causal: bool) -> SoftmaxAttention:
    """Kernel of attention to all tokens; the sizes of its heads are those of the queries and keys that it is given."""
    return FullAttentionConfig().build_kernel(parts(1, Heads(1, 1, 1), position=position, causal=causal))
