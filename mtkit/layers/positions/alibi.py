"""Attention with linear biases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mtkit.layers.heads import Heads
from mtkit.layers.positions.base import Position, Positions, distance, shared


def slopes(num_heads: int) -> list[float]:
    """The geometric sequence of the paper, sec. 3: from 2^(-8/H) to 2^-8.

    Where H is no power of two: the sequence of the power below, then every other one of the power above, as the
    authors' code has it.
    """
    below: int = 2 ** math.floor(math.log2(num_heads))
    first = [2 ** (-8 * i / below) for i in range(1, below + 1)]
    between = [2 ** (-4 * i / below) for i in range(1, 2 * below, 2)]
    return first + between[: num_heads - below]


class ALiBi(Position):
    """score - slope_h · |i - j|: each head forgets at its own rate.

    Press, Smith & Lewis 2022, sec. 3. https://arxiv.org/abs/2108.12409
    Under a causal pattern this is the paper's form; in an encoder it is the symmetric one.
    """

    slope: Tensor  # [H]

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.register_buffer("slope", torch.tensor(slopes(num_heads)), persistent=False)

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, H, T, S]."""
        away = distance(q_pos, k_pos).abs().unsqueeze(1)  # [B, 1, T, S]
        return -self.slope[:, None, None].to(q.dtype) * away


@dataclass(frozen=True, kw_only=True)
class ALiBiConfig:
    """Linear biases (see ALiBi)."""

    kind: Literal["alibi"] = "alibi"

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> Positions:
        """One object for all layers; it has no parameters."""
        return shared(ALiBi(heads.num_heads), layers)
