"""Attention masks: visibility as a function of positions, and masking of scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from mtkit.layers.positions.base import relative_distance


class Pattern(Protocol):
    """Attention pattern: visibility [B, T, S] of keys at k_pos [B, S] to queries at q_pos [B, T]."""

    def __call__(self, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """True where a query may attend to a key; None instead of a tensor if every key is visible."""
        ...


def full(q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
    """Every key is visible."""
    return None


def causal(q_pos: Tensor, k_pos: Tensor) -> Tensor:
    """A query attends to its own and to earlier positions."""
    return k_pos.unsqueeze(-2) <= q_pos.unsqueeze(-1)  # [B, T, S]


@dataclass(frozen=True)
class Window:
    """Sliding window: a query attends to its own position, `before` earlier and `after` later positions."""

    before: int
    after: int

    def __call__(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, T, S]."""
        distance = relative_distance(q_pos, k_pos)
        return (distance <= self.before) & (distance >= -self.after)


def apply_mask(scores: Tensor, visible: Tensor | None) -> Tensor:
    """Hide keys from the softmax.

    Args:
        scores: [B, H, T, S].
        visible: [B, 1, 1 or T, S]: bool, False where a score becomes the dtype's minimum; or a tensor that is added to
            the scores; or None to leave them unchanged.
    """
    if visible is None:
        return scores
    if visible.dtype == torch.bool:
        return torch.where(visible, scores, torch.finfo(scores.dtype).min)
    return scores + visible


def additive_mask(real: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Mask to be added to scores of `dtype`, which hides the keys [B, S] that are not `real`.

    Addition is cheaper than selection, but hides keys only from queries that see another one. Where a row has no real
    key the result is therefore `real` itself. It is None where all keys are real.
    """
    if bool(real.all()):
        return None
    if not bool(real.any(1).all()):
        return real
    return torch.zeros(real.shape, dtype=dtype, device=real.device).masked_fill_(~real, torch.finfo(dtype).min)
