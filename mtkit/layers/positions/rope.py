"""RoPE: rotary position encoding, with scaling for input longer than in training."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from mtkit.layers.heads import Heads
from mtkit.layers.positions.base import Position, PositionConfigBase, StackPositions, shared_across_layers


@dataclass(frozen=True, kw_only=True)
class NoScaling:
    """Unscaled positions."""

    kind: Literal["none"] = "none"

    def apply(self, base: float, head_dim: int) -> tuple[float, float]:
        """Return the base and the divisor of positions."""
        return base, 1.0


@dataclass(frozen=True, kw_only=True)
class LinearScaling:
    """Positions divided by `factor`: longer input keeps to the angles seen in training.

    Chen et al. 2023, eq. 4. https://arxiv.org/abs/2306.15595
    """

    kind: Literal["linear"] = "linear"
    factor: Annotated[float, Field(ge=1)] = 2.0  # longest input over longest training input

    def apply(self, base: float, head_dim: int) -> tuple[float, float]:
        """Return the base and the divisor of positions."""
        return base, self.factor


@dataclass(frozen=True, kw_only=True)
class NTKScaling:
    """A larger base: the slowest pair rotates `factor` times slower, the fastest as before ("NTK-aware").

    base' = base · factor^(K / (K - 2)); Peng et al. 2023, sec. 3.1. https://arxiv.org/abs/2309.00071
    """

    kind: Literal["ntk"] = "ntk"
    factor: Annotated[float, Field(ge=1)] = 2.0  # longest input over longest training input

    def apply(self, base: float, head_dim: int) -> tuple[float, float]:
        """Return the base and the divisor of positions; a single pair (K = 2) has frequency 1 for any base."""
        return base * self.factor ** (head_dim / max(1, head_dim - 2)), 1.0


RoPEScaling = Annotated[NoScaling | LinearScaling | NTKScaling, Field(discriminator="kind")]


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

    def __init__(self, head_dim: int, *, base: float, divisor: float, rotate_half: bool) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"head_dim {head_dim} is odd; RoPE rotates pairs of dimensions")
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim  # [K/2]
        self.register_buffer("frequency", base**-exponent / divisor, persistent=False)
        self.cached_rotations = self.rotations(torch.arange(MAX_CACHED))  # [MAX_CACHED, K/2]; CPU only, so not a buffer
        self.rotate_pairs = rotate_halves if rotate_half else rotate_interleaved

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


@dataclass(frozen=True, kw_only=True)
class RoPEConfig(PositionConfigBase):
    """Rotary position encoding (see RoPE); the head dimension must be even."""

    kind: Literal["rope"] = "rope"
    base: Annotated[float, Field(gt=1)] = 10_000.0  # the paper's; larger for longer sequences
    rotate_half: bool = False  # pairs (x_i, x_i+K/2), as in GPT-NeoX and Llama, instead of (x_2i, x_2i+1)
    scaling: RoPEScaling = field(default_factory=NoScaling)  # for input longer than in training

    acts_in_attention: ClassVar[bool] = True
    needs_even_head_dim: ClassVar[bool] = True

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> StackPositions:
        """Build one module for all layers; it has no parameters."""
        base, divisor = self.scaling.apply(self.base, heads.head_dim)
        rope = RoPE(heads.head_dim, base=base, divisor=divisor, rotate_half=self.rotate_half)
        return shared_across_layers(rope, layers)
