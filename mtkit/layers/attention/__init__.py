"""TODO."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.layers.attention.average import AverageAttentionConfig
from mtkit.layers.attention.linformer import LinformerConfig
from mtkit.layers.attention.longformer import LongformerConfig
from mtkit.layers.attention.performer import PerformerConfig
from mtkit.layers.attention.sliding_window import StridedAttentionConfig, WindowAttentionConfig
from mtkit.layers.attention.softmax import FullAttentionConfig
from mtkit.layers.attention.ssru import SSRUConfig

AttentionConfig = Annotated[
    FullAttentionConfig
    | WindowAttentionConfig
    | StridedAttentionConfig
    | LongformerConfig
    | LinformerConfig
    | PerformerConfig
    | SSRUConfig
    | AverageAttentionConfig,
    Field(discriminator="kind"),
]
