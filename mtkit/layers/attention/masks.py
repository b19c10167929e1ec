"""Who may look at whom: visibility as a function of positions alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.positions.base import distance


class Pattern(Protocol):
    """Visibility [B, T, S] (True: may be attended to) of keys at k_pos [B, S] to queries at q_pos [B, T]."""

    def __call__(self, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """None says that everything is visible, without a tensor."""
        ...


def full(q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
    """Everything is visible."""
    return None


def causal(q_pos: Tensor, k_pos: Tensor) -> Tensor:
    """A query sees its own position and what is before it."""
    return k_pos.unsqueeze(-2) <= q_pos.unsqueeze(-1)  # [B, T, S]


@dataclass(frozen=True)
class Window:
    """A query sees its own position, `before` positions before it and `after` positions after it."""

    before: int
    after: int

    def __call__(self, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, T, S]."""
        away = distance(q_pos, k_pos)
        return (away <= self.before) & (away >= -self.after)


def visibility(pattern: Pattern, q_pos: Tensor, keys: KeyValues) -> Tensor | None:
    """What queries at q_pos [B, T] may see of the keys: [B, 1, 1 or T, S], or None if all of it."""
    visible = pattern(q_pos, keys.pos)  # [B, T, S] or None
    if keys.real is None:
        return None if visible is None else visible.unsqueeze(1)
    real = keys.real[:, None, None, :]  # [B, 1, 1, S]
    return real if visible is None else visible.unsqueeze(1) & real


def additive_mask(real: Tensor, dtype: torch.dtype) -> Tensor | None:
    """What to add to the scores of `dtype` of places [B, S] of which some are `real`; None: nothing, all are.

    Where a row has no real place it is `real` itself.
    """
    if bool(real.all()):
        return None
    if not bool(real.any(1).all()):
        return real
    return torch.zeros(real.shape, dtype=dtype, device=real.device).masked_fill_(~real, torch.finfo(dtype).min)
