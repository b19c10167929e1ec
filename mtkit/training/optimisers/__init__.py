"""TODO."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.training.optimisers.adafactor import AdafactorConfig
from mtkit.training.optimisers.lion import LionConfig
from mtkit.training.optimisers.muon import MuonConfig
from mtkit.training.optimisers.torch_optimisers import AdamConfig, AdamWConfig, SGDConfig

OptimiserConfig = Annotated[
    AdamConfig | AdamWConfig | AdafactorConfig | LionConfig | MuonConfig | SGDConfig, Field(discriminator="kind")
]
