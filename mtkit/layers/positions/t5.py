"""T5's relative position bias: a learned scalar per head and distance bucket."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mtkit.layers.positions.base import Position, relative_distance
from mtkit.layers.projections import embedding


def relative_position_bucket(distance: Tensor, num_buckets: int, *, max_distance: int, causal: bool) -> Tensor:
    """Map distances to buckets, 0 <= bucket < num_buckets.

    The first half of the buckets of a direction holds one distance each. The second half is logarithmic up to
    `max_distance`, and its last bucket holds all larger distances. Raffel et al. 2020, sec. 2.1, and their code.

    Args:
        distance: any shape, query position minus key position.
        num_buckets: for both directions together.
        max_distance: in tokens.
        causal: all buckets are for preceding keys; otherwise the second half of them is for following keys.
    """
    if causal:
        offset, dist = torch.zeros_like(distance), distance.clamp(min=0)
    else:
        num_buckets //= 2
        offset, dist = (distance < 0).long() * num_buckets, distance.abs()
    exact = num_buckets // 2
    log_ratio = torch.log(dist.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    log_bucket = exact + (log_ratio * (num_buckets - exact)).long()
    return offset + torch.where(dist < exact, dist, log_bucket.clamp(max=num_buckets - 1))


class T5Bias(Position):
    """score + b_h(bucket(i - j)); the products of queries and keys are scaled by 1/sqrt(K) only if `scaled`.

    Raffel et al. 2020, sec. 2.1. https://arxiv.org/abs/1910.10683
    """

    def __init__(
        self, num_heads: int, *, num_buckets: int, max_distance: int, causal: bool, scaled: bool = False
    ) -> None:
        super().__init__()
        self.table = embedding(num_buckets, num_heads)
        nn.init.normal_(self.table.weight, std=0.1)  # near 0: no initial preference for a distance
        self.max_distance = max_distance
        self.causal = causal
        self.scaled = scaled

    def scale(self, head_dim: int) -> float:
        """1, or 1/sqrt(K) if `scaled`."""
        return super().scale(head_dim) if self.scaled else 1.0

    def query_init_gain(self, head_dim: int) -> float:
        """1/sqrt(K) if scores are not scaled: the initial weights carry the factor, as in T5."""
        return 1.0 if self.scaled else 1.0 / math.sqrt(head_dim)

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, H, T, S]."""
        distance = relative_distance(q_pos, k_pos)  # [B, T, S]
        buckets = relative_position_bucket(
            distance, self.table.num_embeddings, max_distance=self.max_distance, causal=self.causal
        )
        bias: Tensor = self.table(buckets)  # [B, T, S, H]
        return bias.permute(0, 3, 1, 2).to(q.dtype)
