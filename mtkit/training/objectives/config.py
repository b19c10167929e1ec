"""Configurations of training objectives, and the union of kinds that a recipe can name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from mtkit.config import Limits, config

RewardName = Literal["bleu", "chrf"]


class ObjectiveConfigBase:
    """Capabilities of an objective's configuration; a kind overrides those that differ."""

    builds: ClassVar[str]  # class or function that `construct` calls with the config and an ObjectiveInputs
    trains_encoder_only: ClassVar[bool] = False  # scores masked source tokens; there is no target side
    predicts_source: ClassVar[bool] = False  # scores each source token given the preceding ones
    passes_depend_on_data: ClassVar[bool] = False  # the number of forward passes of a micro-batch depends on its data
    needs_teacher_forcing: ClassVar[bool] = False  # compares states with those of a model that reads the true tokens
    samples_translations: ClassVar[bool] = False  # of the model, with the length limit of `search`
    needs_attention: ClassVar[bool] = False  # of all target tokens over the source
    needs_lexicon: ClassVar[bool] = False  # of the training corpora

    @property
    def teacher_model(self) -> Path | None:
        """Model folder or run of a teacher; None without one."""
        return None


@config
class CrossEntropyConfig(ObjectiveConfigBase):
    """Label-smoothed cross-entropy (see CrossEntropy); smoothing is `training.label_smoothing`."""

    kind: Literal["cross_entropy"] = "cross_entropy"
    builds: ClassVar[str] = "training.objectives.cross_entropy:cross_entropy"


@config
class RDropConfig(ObjectiveConfigBase):
    """Two passes with different dropout masks must agree (see RDrop); takes 2 to 3 times as long as cross-entropy."""

    kind: Literal["r_drop"] = "r_drop"
    builds: ClassVar[str] = "training.objectives.cross_entropy:RDrop"
    # Weight alpha of the divergence of the two passes. Default: the paper's for translation, sec. 3.2.
    weight: Annotated[float, Limits(ge=0)] = 5.0


@config
class UnlikelihoodConfig(ObjectiveConfigBase):
    """Earlier tokens of the sentence must become less likely (see Unlikelihood); against repetitions."""

    kind: Literal["unlikelihood"] = "unlikelihood"
    builds: ClassVar[str] = "training.objectives.cross_entropy:Unlikelihood"
    # Weight alpha of the penalty on earlier tokens. Default: the paper's, sec. 5.
    weight: Annotated[float, Limits(ge=0)] = 1.0


@config
class GuidedAlignmentConfig(ObjectiveConfigBase):
    """Cross-entropy, and one attention head learns the alignments of a lexicon (see GuidedAlignment); learns faster."""

    needs_teacher_forcing: ClassVar[bool] = True
    needs_attention: ClassVar[bool] = True
    needs_lexicon: ClassVar[bool] = True

    kind: Literal["guided_alignment"] = "guided_alignment"
    builds: ClassVar[str] = "training.objectives.guided_alignment:GuidedAlignment"
    # Weight of the alignment, beside 1 for the words. Default: 1; 0.1 and 0.3 gain less.
    weight: Annotated[float, Limits(gt=0)] = 1.0


@config
class MinimumRiskConfig(ObjectiveConfigBase):
    """Expected risk over translations sampled from the model (see MinimumRisk).

    For fine-tuning (`training.init_from`): samples of an untrained model are of no use. Memory and time are
    proportional to `num_samples`, so `training.batch_tokens` should be divided by about that.
    """

    passes_depend_on_data: ClassVar[bool] = True
    samples_translations: ClassVar[bool] = True

    kind: Literal["minimum_risk"] = "minimum_risk"
    builds: ClassVar[str] = "training.objectives.minimum_risk:MinimumRisk"
    # Quality of a sampled sentence: BLEU with add-one smoothing, or chrF. Default: bleu, as in the paper.
    reward: RewardName = "bleu"
    # Translations that are sampled for each sentence. Default: most of the gain comes by 10; the paper has 100.
    num_samples: Annotated[int, Limits(gt=1)] = 8
    # Divisor of the logits of sampling. Default: 1, the model's own distribution.
    temperature: Annotated[float, Limits(gt=0)] = 1.0
    # Exponent alpha of the probabilities that weigh the candidates. Default: the paper's, sec. 4.1: weights are close
    # to uniform.
    sharpness: Annotated[float, Limits(gt=0)] = 0.005
    # Whether the reference is a candidate. Default: true, as in the paper.
    include_reference: bool = True
    # Weight of the cross-entropy that is added. Default: 0.3 for fluency; the paper has 0.
    cross_entropy: Annotated[float, Limits(ge=0)] = 0.3


@config
class JointLMConfig(ObjectiveConfigBase):
    """Cross-entropy of both sides, for a decoder-only model with source_visibility causal (see JointLM)."""

    predicts_source: ClassVar[bool] = True

    kind: Literal["joint_lm"] = "joint_lm"
    builds: ClassVar[str] = "training.objectives.cross_entropy:JointLM"
    # Weight of a source token relative to a target token. Default: half, so that translation stays the main task.
    source_weight: Annotated[float, Limits(gt=0)] = 0.5


@config
class MaskedLMConfig(ObjectiveConfigBase):
    """Train the encoder on masked text (see MaskedLM); needs corpus.noise.kind mlm."""

    trains_encoder_only: ClassVar[bool] = True

    kind: Literal["masked_lm"] = "masked_lm"
    builds: ClassVar[str] = "training.objectives.cross_entropy:masked_lm"


@config
class DistillationConfig(ObjectiveConfigBase):
    """Loss against the distribution of a teacher with the same vocabulary (see Distillation)."""

    kind: Literal["distillation"] = "distillation"
    builds: ClassVar[str] = "training.objectives.distillation:Distillation"
    # Model folder or finished run of the teacher, with the tokenizer of this training.
    teacher: Path
    # Divisor T of both models' logits; a higher one shows more of the teacher's second choices. Default: 2, the
    # smallest of the usual values.
    temperature: Annotated[float, Limits(gt=0)] = 2.0
    # Weight of the divergence from the teacher's distribution. Default: DistilBERT's three weights are 5:2:1.
    soft: Annotated[float, Limits(ge=0)] = 0.6
    # Weight of the cross-entropy with the true tokens. Default: see `soft`.
    hard: Annotated[float, Limits(ge=0)] = 0.3
    # Weight of the angle between the decoder states of both; above 0 it needs the teacher's d_model. Default: see
    # `soft`.
    cosine: Annotated[float, Limits(ge=0)] = 0.1

    needs_teacher_forcing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.soft == self.hard == self.cosine == 0:
            raise ValueError("soft: soft, hard and cosine are 0, so that nothing is learned; set one of them")

    @property
    def teacher_model(self) -> Path:
        """See ObjectiveConfigBase."""
        return self.teacher


ObjectiveConfig = (
    CrossEntropyConfig
    | RDropConfig
    | UnlikelihoodConfig
    | GuidedAlignmentConfig
    | MinimumRiskConfig
    | JointLMConfig
    | MaskedLMConfig
    | DistillationConfig
)
