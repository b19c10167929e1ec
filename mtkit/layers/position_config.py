"""Every position encoding that a recipe can name."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.layers.alibi import ALiBiConfig
from mtkit.layers.deberta import DeBERTaConfig
from mtkit.layers.learned import LearnedConfig
from mtkit.layers.no_position import NoPositionConfig
from mtkit.layers.rope import RoPEConfig
from mtkit.layers.shaw import ShawConfig
from mtkit.layers.sinusoidal import SinusoidalConfig
from mtkit.layers.t5_bias import T5BiasConfig
from mtkit.layers.transformer_xl import TransformerXLConfig

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
