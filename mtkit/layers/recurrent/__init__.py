"""TODO."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.layers.recurrent.additive_attention import AdditiveConfig, ConcatConfig
from mtkit.layers.recurrent.attention import DotConfig, GeneralConfig
from mtkit.layers.recurrent.cells import GRUCellConfig, LSTMCellConfig
from mtkit.layers.recurrent.layer_norm_cells import NormedGRUCellConfig, NormedLSTMCellConfig
from mtkit.layers.recurrent.local_attention import LocalConfig

CellConfig = Annotated[
    LSTMCellConfig | GRUCellConfig | NormedLSTMCellConfig | NormedGRUCellConfig, Field(discriminator="kind")
]


RecurrentAttentionConfig = Annotated[
    AdditiveConfig | ConcatConfig | GeneralConfig | DotConfig | LocalConfig, Field(discriminator="kind")
]
