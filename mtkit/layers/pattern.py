"""Who may look at whom: visibility as a function of positions alone."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Pattern(Protocol):
    """Visibility [B, T, S] (True: may be attended to) of keys at k_pos [B, S] to queries at q_pos [B, T]."""

    def __call__(self, q_pos: Tensor, k_pos: Tensor) -> Tensor | None: ...


def full(q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
    """Everything is visible (None says so without a tensor)."""
    return None


def causal(q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
    """A query sees its own position and what is before it."""
    return k_pos.unsqueeze(-2) <= q_pos.unsqueeze(-1)  # [B, T, S]
