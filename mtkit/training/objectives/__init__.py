"""Training objectives: functions of (model, micro-batch) that return the loss.

interface      the protocols of objectives and of the sampler of translations, and the inputs of objectives
cross_entropy  label-smoothed cross-entropy
r_drop         agreement of two forward passes with different dropout
unlikelihood   a penalty on tokens that would repeat earlier ones
guided_alignment  attention that a lexicon guides
minimum_risk   expected sentence-level risk over sampled translations
joint_lm       cross-entropy of source and target, for decoder-only models
masked_lm      masked language modelling, for the encoder alone
distillation   the distribution and the states of a teacher
chunked_divergence  divergence of the distributions without [N, V] logits
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mtkit.training.objectives.cross_entropy import CrossEntropyConfig
from mtkit.training.objectives.distillation import DistillationConfig
from mtkit.training.objectives.guided_alignment import GuidedAlignmentConfig
from mtkit.training.objectives.joint_lm import JointLMConfig
from mtkit.training.objectives.masked_lm import MaskedLMConfig
from mtkit.training.objectives.minimum_risk import MinimumRiskConfig
from mtkit.training.objectives.r_drop import RDropConfig
from mtkit.training.objectives.unlikelihood import UnlikelihoodConfig

ObjectiveConfig = Annotated[
    CrossEntropyConfig
    | RDropConfig
    | UnlikelihoodConfig
    | GuidedAlignmentConfig
    | MinimumRiskConfig
    | JointLMConfig
    | MaskedLMConfig
    | DistillationConfig,
    Field(discriminator="kind"),
]
