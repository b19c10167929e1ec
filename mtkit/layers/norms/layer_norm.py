"""The norms that a residual connection can be built with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from mtkit.layers.norms.rms_norm import RMSNormConfig


@dataclass(frozen=True, kw_only=True)
class LayerNormConfig:
    """Mean 0 and variance 1 over the width, then a gain and a bias (Ba et al. 2016, https://arxiv.org/abs/1607.06450)."""

    kind: Literal["layer"] = "layer"
    epsilon: Annotated[float, Field(gt=0)] = 1e-5  # torch's

    def build(self, d_model: int) -> nn.LayerNorm:
        """The norm of a stream of width d_model."""
        return nn.LayerNorm(d_model, self.epsilon)


NormLayerConfig = Annotated[LayerNormConfig | RMSNormConfig, Field(discriminator="kind")]
