"""Where order enters a Transformer: the hooks that every position encoding may override."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from mtkit.layers.heads import Heads


class Position(nn.Module):
    """No position encoding; every hook does nothing unless a scheme says otherwise.

    Positions are integers [B, T], passed explicitly, so that a prefix, a cached step and left padding are nothing
    special. `embed` is called once per stack, the others in every attention layer. A kernel that computes in blocks
    folds these into the batch, so that B is then the number of all blocks.
    """

    def scale(self, head_dim: int) -> float:
        """What the products of queries and keys are multiplied by before the bias is added."""
        return 1.0 / math.sqrt(head_dim)

    def initial_query_gain(self, head_dim: int) -> float:
        """What the query projection is multiplied by when it is made, for schemes that do not scale the products."""
        return 1.0

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


@dataclass(frozen=True)
class Positions:
    """The position scheme of one stack: what acts on its embeddings, and what acts in each of its layers."""

    embedding: Position
    layers: list[Position]


def on_embeddings(position: Position, layers: int) -> Positions:
    """A scheme that acts on the embeddings alone."""
    return Positions(position, [Position() for _ in range(layers)])


def shared(position: Position, layers: int) -> Positions:
    """A scheme that acts in the layers, the same object in all of them."""
    return Positions(Position(), [position] * layers)


def in_each_layer(make: Callable[[], Position], layers: int) -> Positions:
    """A scheme that acts in the layers, with parameters of its own in each."""
    return Positions(Position(), [make() for _ in range(layers)])


def distance(q_pos: Tensor, k_pos: Tensor) -> Tensor:
    """Query position less key position [B, T, S], positive for what came before; q_pos [B, T], k_pos [B, S]."""
    return q_pos.unsqueeze(-1) - k_pos.unsqueeze(-2)


def pick(scores: Tensor, index: Tensor) -> Tensor:
    """Of the scores [B, H, T, N] of each query with N kinds of distance, that of each key.

    Args:
        scores: [B, H, T, N].
        index: [B, T, S], which of the N kinds a key is at.

    Returns:
        [B, H, T, S].
    """
    return scores.gather(-1, index.unsqueeze(1).expand(-1, scores.size(1), -1, -1))


def collect(weights: Tensor, index: Tensor, count: int) -> Tensor:
    """The weights [B, H, T, S] of the keys, summed by kind of distance `index` [B, T, S]: [B, H, T, count]."""
    sums = weights.new_zeros(*weights.shape[:-1], count)  # [B, H, T, N]
    return sums.scatter_add(-1, index.unsqueeze(1).expand_as(weights), weights)


@dataclass(frozen=True, kw_only=True)
class NoPositionConfig:
    """No positions: the order is known only through the causal pattern (Kazemnejad et al. 2023, "NoPE")."""

    kind: Literal["none"] = "none"

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> Positions:
        """The scheme that does nothing."""
        return on_embeddings(Position(), layers)
