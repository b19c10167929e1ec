"""A learned scalar bias for each bucket of distances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.layers.heads import Heads
from mtkit.layers.positions.base import Position, Positions, distance, shared
from mtkit.layers.projections import embedding


def bucket(before: Tensor, num_buckets: int, *, max_distance: int, causal: bool) -> Tensor:
    """The bucket of each distance, 0 <= bucket < num_buckets.

    The nearer half of the buckets holds one distance each, the other half is logarithmic up to `max_distance`, and
    the last holds all beyond. Raffel et al. 2020, sec. 2.1, and their code.

    Args:
        before: any shape, query position less key position.
        num_buckets: for both directions together.
        max_distance: in tokens.
        causal: all buckets are for what came before; else the second half is for what comes after.
    """
    if causal:
        after, away = torch.zeros_like(before), before.clamp(min=0)
    else:
        num_buckets //= 2
        after, away = (before < 0).long() * num_buckets, before.abs()
    exact = num_buckets // 2
    share = torch.log(away.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    far = exact + (share * (num_buckets - exact)).long()
    return after + torch.where(away < exact, away, far.clamp(max=num_buckets - 1))


class T5Bias(Position):
    """score + b_h(bucket(i - j)), and the products of queries and keys are not scaled unless `scaled`.

    Raffel et al. 2020, sec. 2.1. https://arxiv.org/abs/1910.10683
    """

    def __init__(
        self, num_heads: int, *, num_buckets: int, max_distance: int, causal: bool, scaled: bool = False
    ) -> None:
        super().__init__()
        self.table = embedding(num_buckets, num_heads)
        nn.init.normal_(self.table.weight, std=0.1)  # near 0: no distance is preferred before anything is learned
        self.max_distance = max_distance
        self.causal = causal
        self.scaled = scaled

    def scale(self, head_dim: int) -> float:
        """One, or as elsewhere."""
        return super().scale(head_dim) if self.scaled else 1.0

    def initial_query_gain(self, head_dim: int) -> float:
        """1/sqrt(K), where there is no scale: it goes into the first weights."""
        return 1.0 if self.scaled else 1.0 / math.sqrt(head_dim)

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, H, T, S]."""
        buckets = bucket(
            distance(q_pos, k_pos), self.table.num_embeddings, max_distance=self.max_distance, causal=self.causal
        )
        bias: Tensor = self.table(buckets)  # [B, T, S, H]
        return bias.permute(0, 3, 1, 2).to(q.dtype)


@dataclass(frozen=True, kw_only=True)
class T5BiasConfig:
    """Bucketed bias, shared over the layers (see T5Bias)."""

    kind: Literal["t5"] = "t5"
    num_buckets: Annotated[int, Field(ge=4, multiple_of=4)] = 32  # both directions together; the paper's
    max_distance: Annotated[int, Field(gt=0)] = 128  # farther ones share a bucket; the paper's
    scaled: bool = False  # the paper's, with Adafactor; Adam at a large rate learns faster if the products are scaled

    def __post_init__(self) -> None:
        if self.max_distance <= self.num_buckets // 2:
            raise ValueError(
                f"max_distance: {self.max_distance} leaves nothing for the logarithmic buckets; make it more than half "
                f"of num_buckets, which is {self.num_buckets}"
            )

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> Positions:
        """One table for all layers, as in the paper."""
        scheme = T5Bias(
            heads.num_heads,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
            causal=causal,
            scaled=self.scaled,
        )
        return shared(scheme, layers)
