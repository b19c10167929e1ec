"""The kinds of noise that a recipe can ask for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.corpus.bart_noise import BartNoiseConfig
from mtkit.corpus.mask_noise import MaskNoiseConfig
from mtkit.corpus.span_noise import SpanNoiseConfig

NoiseConfig = Annotated[SpanNoiseConfig | BartNoiseConfig | MaskNoiseConfig, Field(discriminator="kind")]
