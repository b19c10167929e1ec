"""The norms that a residual connection can be built with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.layers.rms_norm import RMSNormConfig


class LayerNorm(nn.LayerNorm):
    """torch's own, but for a detour in Python that takes as long as the norm of a row does."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape as x [..., D]."""
        return torch.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True, kw_only=True)
class LayerNormConfig:
    """Mean 0 and variance 1 over the width, then a gain and a bias (Ba et al. 2016, https://arxiv.org/abs/1607.06450)."""

    kind: Literal["layer"] = "layer"
    epsilon: Annotated[float, Field(gt=0)] = 1e-5  # torch's

    def build(self, d_model: int) -> LayerNorm:
        """The norm of a stream of width d_model."""
        return LayerNorm(d_model, self.epsilon)


NormLayerConfig = Annotated[LayerNormConfig | RMSNormConfig, Field(discriminator="kind")]
