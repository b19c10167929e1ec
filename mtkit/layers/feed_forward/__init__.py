"""Feed-forward sublayers, and the union of kinds that a recipe can name.

dense               two projections with an activation between them
gated               GLU variants: ReGLU, GEGLU, SwiGLU
mixture_of_experts  routed experts (Switch, top-2)
aux_loss            auxiliary losses of layers, collected in a scope
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.layers.feed_forward.dense import DenseConfig
from mtkit.layers.feed_forward.gated import GatedConfig
from mtkit.layers.feed_forward.mixture_of_experts import MixtureOfExpertsConfig

FeedForwardConfig = Annotated[DenseConfig | GatedConfig | MixtureOfExpertsConfig, Field(discriminator="kind")]
