"""Where order enters a Transformer: the hooks that every position encoding may override."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn


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
