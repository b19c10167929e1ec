"""Norms of queries and keys, so that scores cannot grow without bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import nn

from mtkit.layers.rms_norm import RMSNorm

QueryKeyNorm = Literal["none", "layer", "rms"]

# over the K numbers of one head, with a gain shared by the heads; Dehghani et al. 2023, sec. 2.1 (layer norm), after
# Henry et al. 2020. https://arxiv.org/abs/2302.05442
MAKERS: dict[QueryKeyNorm, Callable[[int], nn.Module]] = {
    "none": lambda head_dim: nn.Identity(),
    "layer": nn.LayerNorm,
    "rms": lambda head_dim: RMSNorm(head_dim, epsilon=1e-6),
}


def query_key_norm(kind: QueryKeyNorm, head_dim: int) -> nn.Module:
    """What queries, or keys, [B, H, T, K] go through before positions turn them."""
    return MAKERS[kind](head_dim)
