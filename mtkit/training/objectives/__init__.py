"""TODO."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.training.objectives.cross_entropy import CrossEntropyConfig
from mtkit.training.objectives.joint_lm import SourceAndTargetConfig
from mtkit.training.objectives.masked_lm import MaskedLanguageModelConfig
from mtkit.training.objectives.minimum_risk import MinimumRiskConfig
from mtkit.training.objectives.r_drop import RDropConfig
from mtkit.training.objectives.unlikelihood import UnlikelihoodConfig

ObjectiveConfig = Annotated[
    CrossEntropyConfig
    | RDropConfig
    | UnlikelihoodConfig
    | MinimumRiskConfig
    | SourceAndTargetConfig
    | MaskedLanguageModelConfig,
    Field(discriminator="kind"),
]
