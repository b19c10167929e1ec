"""Who may look at whom: visibility as a function of positions alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from mtkit.layers.distance import distance


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
