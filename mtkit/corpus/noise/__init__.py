"""The kinds of noise that a recipe can ask for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.corpus.noise.bart import BartNoiseConfig
from mtkit.corpus.noise.mlm import MaskNoiseConfig
from mtkit.corpus.noise.span_corruption import SpanNoiseConfig

NoiseConfig = Annotated[SpanNoiseConfig | BartNoiseConfig | MaskNoiseConfig, Field(discriminator="kind")]
