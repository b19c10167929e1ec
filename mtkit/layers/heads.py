"""Attention heads: their sizes, and the reshapes between the model width and separate heads."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Heads:
    """Sizes of multi-head attention: H query heads and G key/value heads of width K."""

    num_heads: int
    num_kv_heads: int
    head_dim: int


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """[B, T, H·K] -> [B, H, T, K]."""
    batch, length, width = x.shape
    return x.view(batch, length, num_heads, width // num_heads).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """[B, H, T, K] -> [B, T, H·K]."""
    return x.transpose(1, 2).flatten(-2)
