"""Position encodings: the modules, and the union of kinds that a recipe can name.

base            Position: the hooks that an encoding overrides; no positions (NoPE)
sinusoidal      sinusoids added to the embeddings (Vaswani et al. 2017)
learned         learned vectors added to the embeddings
rope            rotary encoding of queries and keys, with scaling for longer input (Su et al. 2021)
alibi           linear score biases (Press et al. 2022)
shaw            relative vectors on keys and values (Shaw et al. 2018)
t5              learned score bias per distance bucket (Raffel et al. 2020)
transformer_xl  relative encoding with sinusoids and global biases (Dai et al. 2019)
deberta         disentangled attention (He et al. 2021)
tupe            untied content and position scores (Ke et al. 2021)
naive           index, index / length and binary codes added to the embeddings, for comparison
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.layers.positions.alibi import ALiBiConfig
from mtkit.layers.positions.base import NoPositionConfig
from mtkit.layers.positions.deberta import DeBERTaConfig
from mtkit.layers.positions.learned import LearnedConfig
from mtkit.layers.positions.naive import BinaryConfig, IndexConfig, RelativeIndexConfig
from mtkit.layers.positions.rope import RoPEConfig
from mtkit.layers.positions.shaw import ShawConfig
from mtkit.layers.positions.sinusoidal import SinusoidalConfig
from mtkit.layers.positions.t5 import T5BiasConfig
from mtkit.layers.positions.transformer_xl import TransformerXLConfig
from mtkit.layers.positions.tupe import TUPEConfig

PositionConfig = Annotated[
    SinusoidalConfig
    | LearnedConfig
    | NoPositionConfig
    | RoPEConfig
    | ALiBiConfig
    | ShawConfig
    | T5BiasConfig
    | TransformerXLConfig
    | DeBERTaConfig
    | TUPEConfig
    | IndexConfig
    | RelativeIndexConfig
    | BinaryConfig,
    Field(discriminator="kind"),
]
