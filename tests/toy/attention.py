"""Attention layers and kernels with the settings that tests rarely change."""

from __future__ import annotations

from mtkit.layers.attention import AttentionParts, SoftmaxAttention, TokenMixer
from mtkit.layers.config import FullAttentionConfig
from mtkit.layers.positions import Position
from mtkit.layers.sizes import Heads, QKNorm


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
