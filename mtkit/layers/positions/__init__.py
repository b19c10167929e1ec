"""Every position encoding that a recipe can name."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.layers.positions.alibi import ALiBiConfig
from mtkit.layers.positions.base import NoPositionConfig
from mtkit.layers.positions.deberta import DeBERTaConfig
from mtkit.layers.positions.learned import LearnedConfig
from mtkit.layers.positions.rope import RoPEConfig
from mtkit.layers.positions.shaw import ShawConfig
from mtkit.layers.positions.sinusoidal import SinusoidalConfig
from mtkit.layers.positions.t5 import T5BiasConfig
from mtkit.layers.positions.transformer_xl import TransformerXLConfig

ScoreBias = ALiBiConfig | ShawConfig | T5BiasConfig | TransformerXLConfig | DeBERTaConfig  # need the scores themselves


PositionConfig = Annotated[
    SinusoidalConfig
    | LearnedConfig
    | NoPositionConfig
    | RoPEConfig
    | ALiBiConfig
    | ShawConfig
    | T5BiasConfig
    | TransformerXLConfig
    | DeBERTaConfig,
    Field(discriminator="kind"),
]
