"""The kinds of feed-forward layer that a recipe may name."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.layers.experts import ExpertsConfig
from mtkit.layers.feed_forward import DenseConfig
from mtkit.layers.gated_feed_forward import GatedConfig

FeedForwardConfig = Annotated[DenseConfig | GatedConfig | ExpertsConfig, Field(discriminator="kind")]
