"""Position encodings: the hooks that each kind overrides, and how a stack of layers uses them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from mtkit.layers.heads import Heads

if TYPE_CHECKING:
    from mtkit.layers.positions.absolute_config import PositionConfigBase


class Position(nn.Module):
    """Position encoding. This base class is the identity: a subclass overrides the hooks that it needs.

    Positions are integers [B, T] and passed explicitly. Prefixes, cached steps and left padding therefore need no
    special case. `embed` is called once per stack, the other hooks in every attention layer. A kernel that computes in
    blocks folds the blocks into the batch axis, so that B is then the number of all blocks.

    Args:
        config: of a subclass.
        d_model: width of the embeddings.
        heads: sizes of the heads of the layers; None: products of queries and keys are scaled.
        causal: positions of a decoder.
    """

    def __init__(
        self,
        config: PositionConfigBase | None = None,
        d_model: int = 0,
        heads: Heads | None = None,
        *,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.is_scaled = heads is None or heads.scaled

    def scale(self, head_dim: int) -> float:
        """Factor of the products of queries and keys, applied before the bias is added."""
        return 1.0 / math.sqrt(head_dim) if self.is_scaled else 1.0

    def query_init_gain(self, head_dim: int) -> float:
        """Factor of the query projection's initial weights, for encodings that do not scale the products."""
        return 1.0

    def embed(self, x: Tensor, pos: Tensor, real: Tensor | None = None) -> Tensor:
        """Add positions to embeddings: x [B, T, D], pos [B, T]; real [B, T] is False at padding."""
        return x

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        """Rotate queries or keys: x [B, H, T, K], pos [B, T]."""
        return x

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """Score bias, broadcastable to [B, H, T, S], added after scaling; q [B, H, T, K], k [B, G, S, K]."""
        return None

    def value_bias(self, weights: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """Term [B, H, T, K] added to the weighted sum of values; weights [B, H, T, S]."""
        return None


@dataclass(frozen=True)
class StackPositions:
    """Position encoding of one stack: the module applied to its embeddings, and one module per layer."""

    embedding: Position
    layers: list[Position]


def relative_distance(q_pos: Tensor, k_pos: Tensor) -> Tensor:
    """Query position minus key position [B, T, S], positive for preceding keys; q_pos [B, T], k_pos [B, S]."""
    return q_pos.unsqueeze(-1) - k_pos.unsqueeze(-2)


def gather_by_distance(scores: Tensor, index: Tensor) -> Tensor:
    """Expand scores per distance class to scores per key.

    Args:
        scores: [B, H, T, N], one for each of N distance classes.
        index: [B, T, S], the distance class of each key.

    Returns:
        [B, H, T, S].
    """
    return scores.gather(-1, index.unsqueeze(1).expand(-1, scores.size(1), -1, -1))


def sum_by_distance(weights: Tensor, index: Tensor, count: int) -> Tensor:
    """Sum weights [B, H, T, S] over the keys of each distance class; index [B, T, S] -> [B, H, T, count]."""
    sums = weights.new_zeros(*weights.shape[:-1], count)  # [B, H, T, N]
    return sums.scatter_add(-1, index.unsqueeze(1).expand_as(weights), weights)
