"""RoPE: rotary position encoding, with scaling for input longer than in training."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.layers.heads import Heads
from mtkit.layers.positions.base import Position

if TYPE_CHECKING:
    from mtkit.layers.positions.config import RoPEConfig

MAX_CACHED = 1024  # positions whose rotations are cached on a CPU, where computing them took 1% of a translation


def rotate_interleaved(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate the pairs (x_2i, x_2i+1) of x [..., K] by unit complex numbers [..., K/2]: a complex product."""
    exact = x if x.dtype.itemsize >= torch.float32.itemsize else x.float()
    pairs = torch.view_as_complex(torch.unflatten(exact, -1, (-1, 2)))  # [..., K/2]
    return torch.view_as_real(pairs * rotation).flatten(-2).type_as(x)


def rotate_halves(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate the pairs (x_i, x_i+K/2) of x [..., K] by unit complex numbers [..., K/2]."""
    first, second = x.chunk(2, dim=-1)  # [..., K/2]
    cos, sin = rotation.real.to(x.dtype), rotation.imag.to(x.dtype)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class RoPE(Position):
    """Pair i of a query or key at position p is rotated by p · base^(-2i/K); products depend on the distance alone.

    Su et al. 2021, eq. 34. https://arxiv.org/abs/2104.09864
    A pair is two adjacent dimensions as in the paper, or dimensions i and i+K/2 with `rotate_half`. Angles are float32
    for any type of x.
    """

    frequency: Tensor  # [K/2]

    def __init__(self, config: RoPEConfig, d_model: int, heads: Heads, *, causal: bool) -> None:
        super().__init__(config, d_model, heads, causal=causal)
        head_dim = heads.head_dim
        base, divisor = config.scaling.apply(config.base, head_dim)
        if head_dim % 2:
            raise ValueError(f"head_dim {head_dim} is odd; RoPE rotates pairs of dimensions")
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim  # [K/2]
        self.register_buffer("frequency", base**-exponent / divisor, persistent=False)
        self.cached_rotations = self.rotations(torch.arange(MAX_CACHED))  # [MAX_CACHED, K/2]; CPU only, so not a buffer
        self.rotate_pairs = rotate_halves if config.rotate_half else rotate_interleaved

    def rotations(self, pos: Tensor) -> Tensor:
        """Rotation of each pair at pos [...]: unit complex numbers e^(i·angle) [..., K/2]."""
        angle = pos.unsqueeze(-1).float() * self.frequency.float()
        return torch.polar(torch.ones_like(angle), angle)

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        """Rotate x [B, H, T, K] by its positions [B, T]."""
        if x.device.type == "cpu" and not torch.compiler.is_compiling():
            with suppress(IndexError):  # a position beyond the cache
                return self.rotate_pairs(x, F.embedding(pos, self.cached_rotations).unsqueeze(1))
        return self.rotate_pairs(x, self.rotations(pos).unsqueeze(1))
