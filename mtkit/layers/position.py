"""Where order enters a Transformer: the hooks that every position encoding may override."""

from __future__ import annotations

import math

from torch import Tensor, nn


class Position(nn.Module):
    """No position encoding; every hook does nothing unless a scheme says otherwise.

    Positions are integers [B, T], passed explicitly, so that a prefix, a cached step and left padding are nothing
    special. `embed` is called once per stack, the others in every attention layer.
    """

    def scale(self, head_dim: int) -> float:
        """What the products of queries and keys are multiplied by before the bias is added."""
        return 1.0 / math.sqrt(head_dim)

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """Add positions to embeddings: x [B, T, D], pos [B, T]."""
        return x

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        """Turn queries or keys: x [B, H, T, K], pos [B, T]."""
        return x

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """What is added to the scaled scores, broadcastable to [B, H, T, S]; q [B, H, T, K], k [B, G, S, K]."""
        return None

    def values(self, weights: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """What is added to the weighted values, [B, H, T, K]; weights [B, H, T, S]."""
        return None
