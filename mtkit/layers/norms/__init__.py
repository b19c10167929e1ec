"""Norms and residual connections.

norm         layer norm and RMS norm
batch_norm   batch norm over real tokens
residual     Residual (the interface), pre-norm and post-norm; Sublayer, Depth
sandwich     a norm before and after each sublayer
deepnorm     DeepNorm, for very deep post-norm stacks
comparisons  norm after the sublayer; no residual connection
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.layers.norms.comparisons import NoResidualConfig, ResPostNormConfig
from mtkit.layers.norms.deepnorm import DeepNormConfig
from mtkit.layers.norms.residual import PostNormConfig, PreNormConfig
from mtkit.layers.norms.sandwich import SandwichNormConfig

ResidualConfig = Annotated[
    PreNormConfig | PostNormConfig | SandwichNormConfig | DeepNormConfig | ResPostNormConfig | NoResidualConfig,
    Field(discriminator="kind"),
]
