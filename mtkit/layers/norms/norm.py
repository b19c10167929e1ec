"""Normalisation layers of one token: layer norm and RMS norm; and the union of all norms."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mtkit.layers.norms.batch_norm import BatchNorm


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


def apply_norm(norm: nn.Module, x: Tensor, real: Tensor | None) -> Tensor:
    """Normalise x [B, T, D]; a norm with statistics over tokens leaves out those where real [B, T] is False."""
    y: Tensor = norm(x, real) if isinstance(norm, BatchNorm) else norm(x)
    return y
