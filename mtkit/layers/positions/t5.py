"""T5's relative position bias: a learned scalar per head and distance bucket."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.layers.heads import Heads
from mtkit.layers.positions.base import (
    Position,
    PositionConfigBase,
    StackPositions,
    relative_distance,
    shared_across_layers,
)
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


@dataclass(frozen=True, kw_only=True)
class T5BiasConfig(PositionConfigBase):
    """Bucketed bias, shared over the layers (see T5Bias)."""

    kind: Literal["t5"] = "t5"
    num_buckets: Annotated[int, Field(ge=4, multiple_of=4)] = 32  # both directions together; the paper's
    max_distance: Annotated[int, Field(gt=0)] = 128  # larger distances share a bucket; the paper's
    scaled: bool = False  # false: the paper, with Adafactor; with Adam at a large rate true trains faster

    acts_in_attention: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.max_distance <= self.num_buckets // 2:
            raise ValueError(
                f"max_distance: {self.max_distance} leaves no logarithmic buckets; it must exceed half of num_buckets "
                f"({self.num_buckets})"
            )

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build one table for all layers, as in the paper."""
        bias = T5Bias(
            heads.num_heads,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
            causal=causal,
            scaled=self.scaled,
        )
        return shared_across_layers(bias, layers)
