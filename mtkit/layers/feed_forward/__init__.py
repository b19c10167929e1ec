"""The kinds of feed-forward layer that a recipe may name."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.layers.feed_forward.dense import DenseConfig
from mtkit.layers.feed_forward.gated import GatedConfig
from mtkit.layers.feed_forward.mixture_of_experts import ExpertsConfig

FeedForwardConfig = Annotated[DenseConfig | GatedConfig | ExpertsConfig, Field(discriminator="kind")]
