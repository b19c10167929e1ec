"""How far apart queries and keys stand, and scores that are kept by distance."""

from __future__ import annotations

from torch import Tensor


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
