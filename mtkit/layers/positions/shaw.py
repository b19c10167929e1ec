"""Relative position representations of Shaw et al. 2018."""

from __future__ import annotations

from torch import Tensor

from mtkit.layers.positions.base import (
    Position,
    gather_by_distance,
    relative_distance,
    sum_by_distance,
)
from mtkit.layers.projections import embedding


class Shaw(Position):
    """Learned vectors per clipped distance: one is added to the key, another to the value.

    Shaw, Uszkoreit & Vaswani 2018, eq. 3 and 4, computed as in sec. 3.3. https://arxiv.org/abs/1803.02155
    The heads share the vectors.
    """

    def __init__(self, head_dim: int, value_dim: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.key = embedding(2 * max_distance + 1, head_dim)  # a^K
        self.value = embedding(2 * max_distance + 1, value_dim)  # a^V

    def _index(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        dist = -relative_distance(q_pos, k_pos)  # [B, T, S], j - i as in the paper
        return dist.clamp(-self.max_distance, self.max_distance) + self.max_distance

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """q_i · a^K_(j-i) / sqrt(K), [B, H, T, S]."""
        scores = (q * self.scale(q.size(-1))) @ self.key.weight.to(q.dtype).T  # [B, H, T, N]
        return gather_by_distance(scores, self._index(q_pos, k_pos))

    def value_bias(self, weights: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """sum_j weight_ij a^V_(j-i), [B, H, T, K]."""
        count = self.value.num_embeddings
        by_distance = sum_by_distance(weights, self._index(q_pos, k_pos), count)  # [B, H, T, N]
        return by_distance @ self.value.weight.to(weights.dtype)
