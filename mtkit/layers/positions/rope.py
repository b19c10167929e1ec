"""Rotary position encoding."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from mtkit.layers.heads import Heads
from mtkit.layers.positions.base import Position, Positions, shared


@dataclass(frozen=True, kw_only=True)
class NoScaling:
    """Positions as they are."""

    kind: Literal["none"] = "none"

    def apply(self, base: float, head_dim: int) -> tuple[float, float]:
        """The base, and what positions are divided by."""
        return base, 1.0


@dataclass(frozen=True, kw_only=True)
class LinearScaling:
    """Positions divided by `factor`: input that much longer stays within the angles of training.

    Chen et al. 2023, eq. 4. https://arxiv.org/abs/2306.15595
    """

    kind: Literal["linear"] = "linear"
    factor: Annotated[float, Field(ge=1)] = 2.0  # longest input over longest training input

    def apply(self, base: float, head_dim: int) -> tuple[float, float]:
        """The base, and what positions are divided by."""
        return base, self.factor


@dataclass(frozen=True, kw_only=True)
class NTKScaling:
    """A larger base, so that the slowest pair turns `factor` times slower and the fastest as before.

    base' = base · factor^(K / (K - 2)); Peng et al. 2023, sec. 3.1. https://arxiv.org/abs/2309.00071
    """

    kind: Literal["ntk"] = "ntk"
    factor: Annotated[float, Field(ge=1)] = 2.0  # longest input over longest training input

    def apply(self, base: float, head_dim: int) -> tuple[float, float]:
        """The base, and what positions are divided by; a single pair (K = 2) turns at 1 whatever the base."""
        return base * self.factor ** (head_dim / max(1, head_dim - 2)), 1.0


RoPEScaling = Annotated[NoScaling | LinearScaling | NTKScaling, Field(discriminator="kind")]


KNOWN = 1024  # positions whose turns a processor looks up; to compute them was a hundredth of the time of a translation


def turn_neighbours(x: Tensor, turn: Tensor) -> Tensor:
    """Turn the pairs (x_2i, x_2i+1) of x [..., K] by unit complex numbers [..., K/2]: a product."""
    exact = x if x.dtype.itemsize >= torch.float32.itemsize else x.float()
    pairs = torch.view_as_complex(torch.unflatten(exact, -1, (-1, 2)))  # [..., K/2]
    return torch.view_as_real(pairs * turn).flatten(-2).type_as(x)


def turn_halves(x: Tensor, turn: Tensor) -> Tensor:
    """Turn the pairs (x_i, x_i+K/2) of x [..., K] by unit complex numbers [..., K/2]."""
    first, second = x.chunk(2, dim=-1)  # [..., K/2]
    cos, sin = turn.real.to(x.dtype), turn.imag.to(x.dtype)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class RoPE(Position):
    """Pair i of a query or key turns by p · base^(-2i/K), so that a product depends on the distance alone.

    Su et al. 2021, eq. 34. https://arxiv.org/abs/2104.09864
    Pairs are neighbours as in the paper, or the two halves. Angles are float32 whatever the type of x.
    """

    frequency: Tensor  # [K/2]

    def __init__(self, head_dim: int, *, base: float, divisor: float, half_split: bool) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"head_dim {head_dim} is odd and cannot be cut into pairs")
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim  # [K/2]
        self.register_buffer("frequency", base**-exponent / divisor, persistent=False)
        self.known = self.turns(torch.arange(KNOWN))  # [KNOWN, K/2]; no buffer, for on other devices it is not used
        self.turn = turn_halves if half_split else turn_neighbours

    def turns(self, pos: Tensor) -> Tensor:
        """How far each pair turns at pos [...]: unit complex numbers [..., K/2]."""
        angle = pos.unsqueeze(-1).float() * self.frequency.float()
        return torch.polar(torch.ones_like(angle), angle)

    def rotate(self, x: Tensor, pos: Tensor) -> Tensor:
        """x [B, H, T, K] turned by its positions [B, T]."""
        if x.device.type == "cpu" and not torch.compiler.is_compiling():
            with suppress(IndexError):  # of a position beyond what is known
                return self.turn(x, F.embedding(pos, self.known).unsqueeze(1))
        return self.turn(x, self.turns(pos).unsqueeze(1))


@dataclass(frozen=True, kw_only=True)
class RoPEConfig:
    """Rotary position encoding (see RoPE); the head dimension must be even."""

    kind: Literal["rope"] = "rope"
    base: Annotated[float, Field(gt=1)] = 10_000.0  # the paper's; a larger one reaches further
    half_split: bool = False  # pairs (x_i, x_i+K/2), as in GPT-NeoX and Llama, in place of neighbours
    scaling: RoPEScaling = field(default_factory=NoScaling)  # for input longer than any in training

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> Positions:
        """One object for all layers; it has no parameters."""
        base, divisor = self.scaling.apply(self.base, heads.head_dim)
        return shared(RoPE(heads.head_dim, base=base, divisor=divisor, half_split=self.half_split), layers)
