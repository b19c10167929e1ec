"""Root mean square norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn


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
    epsilon: Annotated[float, Field(gt=0)] = 1e-6  # as T5 and Llama have it

    def build(self, d_model: int) -> RMSNorm:
        """The norm of a stream of width d_model."""
        return RMSNorm(d_model, self.epsilon)
