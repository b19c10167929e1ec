"""ALiBi: attention with linear biases."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mtkit.layers.positions.base import Position, relative_distance


def alibi_slopes(num_heads: int) -> list[float]:
    """Slopes of H heads: a geometric sequence from 2^(-8/H) to 2^-8. The paper, sec. 3.

    If H is not a power of two: the sequence for the next lower power, then every other slope for the next higher
    power, as in the authors' code.
    """
    below: int = 2 ** math.floor(math.log2(num_heads))
    first = [2 ** (-8 * i / below) for i in range(1, below + 1)]
    between = [2 ** (-4 * i / below) for i in range(1, 2 * below, 2)]
    return first + between[: num_heads - below]


class ALiBi(Position):
    """score - slope_h · |i - j|, with a fixed slope per head.

    Press, Smith & Lewis 2022, sec. 3. https://arxiv.org/abs/2108.12409
    With a causal mask this is the paper's form; in an encoder it is the symmetric variant.
    """

    slope: Tensor  # [H]

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.register_buffer("slope", torch.tensor(alibi_slopes(num_heads)), persistent=False)

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, H, T, S]."""
        dist = relative_distance(q_pos, k_pos).abs().unsqueeze(1)  # [B, 1, T, S]
        return -self.slope[:, None, None].to(q.dtype) * dist
