"""Optimisers and learning rate schedules of `training.optimiser` and `training.schedule`.

base               parts of all kinds: the base of their configurations, parameter groups, learning rates
state              the state of an optimiser as named tensors
torch_optimisers   Adam, AdamW, Adadelta and SGD
adafactor          Adafactor: factored second moments
lion               Lion: the sign of a momentum
muon               Muon: orthogonalised momentum for hidden matrices, AdamW for the rest
schedule           learning rate schedules

A new optimiser is a file with its Config and one line in the union below.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.training.optimisers.adafactor import AdafactorConfig
from mtkit.training.optimisers.lion import LionConfig
from mtkit.training.optimisers.muon import MuonConfig
from mtkit.training.optimisers.torch_optimisers import AdadeltaConfig, AdamConfig, AdamWConfig, SGDConfig

OptimiserConfig = Annotated[
    AdamConfig | AdamWConfig | AdafactorConfig | AdadeltaConfig | LionConfig | MuonConfig | SGDConfig,
    Field(discriminator="kind"),
]
