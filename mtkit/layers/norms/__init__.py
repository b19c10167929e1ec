"""Norms and residual connections.

norm      layer norm and RMS norm
residual  Residual (the interface), pre-norm and post-norm; Sublayer, Depth
sandwich  a norm before and after each sublayer
deepnorm  DeepNorm, for very deep post-norm stacks
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.layers.norms.deepnorm import DeepNormConfig
from mtkit.layers.norms.residual import PostNormConfig, PreNormConfig
from mtkit.layers.norms.sandwich import SandwichNormConfig

ResidualConfig = Annotated[
    PreNormConfig | PostNormConfig | SandwichNormConfig | DeepNormConfig, Field(discriminator="kind")
]
