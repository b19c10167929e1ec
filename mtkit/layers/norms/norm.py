"""Normalisation layers of one token: layer norm and RMS norm; and the union of all norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.layers.norms.batch_norm import BatchNorm, BatchNormConfig


@dataclass(frozen=True, kw_only=True)
class LayerNormConfig:
    """Layer norm: mean 0 and variance 1 over the width, then a gain and a bias.

    Ba et al. 2016. https://arxiv.org/abs/1607.06450
    """

    kind: Literal["layer"] = "layer"
    epsilon: Annotated[float, Field(gt=0)] = 1e-5  # torch's default

    def build(self, d_model: int) -> nn.LayerNorm:
        """Build the norm of inputs [..., d_model]."""
        return nn.LayerNorm(d_model, self.epsilon)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + epsilon) · g: a layer norm without its mean and its bias.

    Zhang & Sennrich 2019, eq. 4. https://arxiv.org/abs/1910.07467 Computed in float32 at least.
    """

    def __init__(self, d_model: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D], in the type of x."""
        full = x.to(torch.promote_types(x.dtype, torch.float32))  # [..., D]
        scale = torch.rsqrt(full.square().mean(-1, keepdim=True) + self.epsilon)  # [..., 1]
        return (full * scale * self.weight).to(x.dtype)


@dataclass(frozen=True, kw_only=True)
class RMSNormConfig:
    """Root mean square norm (see RMSNorm)."""

    kind: Literal["rms"] = "rms"
    epsilon: Annotated[float, Field(gt=0)] = 1e-6  # as in T5 and Llama

    def build(self, d_model: int) -> RMSNorm:
        """Build the norm of inputs [..., d_model]."""
        return RMSNorm(d_model, self.epsilon)


@dataclass(frozen=True, kw_only=True)
class NoNormConfig:
    """No norm, to see what norms contribute."""

    kind: Literal["none"] = "none"

    def build(self, d_model: int) -> nn.Identity:
        """Build the identity."""
        return nn.Identity()


def apply_norm(norm: nn.Module, x: Tensor, real: Tensor | None) -> Tensor:
    """Normalise x [B, T, D]; a norm with statistics over tokens leaves out those where real [B, T] is False."""
    y: Tensor = norm(x, real) if isinstance(norm, BatchNorm) else norm(x)
    return y


TokenNormConfig = Annotated[LayerNormConfig | RMSNormConfig, Field(discriminator="kind")]


NormConfig = Annotated[LayerNormConfig | RMSNormConfig | BatchNormConfig | NoNormConfig, Field(discriminator="kind")]
