"""Configurations of decoder inputs, and the union of kinds that a recipe can name."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Annotated, ClassVar, Literal

from mtkit.config import Limits, config

SamplerName = Literal["argmax", "multinomial", "gumbel"]
Temperature = Annotated[float, Limits(gt=0)]
Probability = Annotated[float, Limits(ge=0, le=1)]


class DecoderInputConfigBase:
    """Capabilities of a decoder input's configuration; a kind overrides those that differ."""

    builds: ClassVar[str]  # class that `construct` makes of the config and a TargetVocabIds
    reads_truth: ClassVar[bool] = False  # the decoder reads the true tokens, and only these
    passes_depend_on_data: ClassVar[bool] = False  # the number of forward passes of a micro-batch depends on its data

    def ratio_at(self, update: float) -> float | None:
        """Teacher forcing ratio at an update (1 is the first), for the log; None for a kind without a schedule."""
        return None


@config
class LinearDecayConfig:
    """max(end, 1 - (1 - end) i / updates)."""

    kind: Literal["linear"] = "linear"
    # Updates until `end` is reached. Default: most of a Multi30k training.
    updates: Annotated[int, Limits(gt=0)] = 3000
    # Smallest ratio. Default: 0.75, since a decoder that reads mostly errors learns little.
    end: Probability = 0.75

    def ratio(self, i: float) -> float:
        """The teacher forcing ratio at update i."""
        return max(self.end, 1.0 - (1.0 - self.end) * i / self.updates)


@config
class ExponentialDecayConfig:
    """k^i."""

    kind: Literal["exponential"] = "exponential"
    # Base of the decay. Default: ratio 0.5 after 6,900 updates.
    k: Annotated[float, Limits(gt=0, lt=1)] = 0.9999

    def ratio(self, i: float) -> float:
        """The teacher forcing ratio at update i."""
        return math.exp(i * math.log(self.k))


@config
class InverseSigmoidDecayConfig:
    """k / (k + exp(i / k)): near 1 at first, 0.5 at i = k log k."""

    kind: Literal["inverse_sigmoid"] = "inverse_sigmoid"
    # Time constant in updates. Default: ratio 0.5 after 3,800 updates.
    k: Annotated[float, Limits(ge=1)] = 600.0

    def ratio(self, i: float) -> float:
        """The teacher forcing ratio at update i."""
        return 1.0 / (1.0 + math.exp(min(i / self.k - math.log(self.k), 700.0)))  # exp(710) overflows


@config
class ConstantRatioConfig:
    """The same ratio at all updates; a number alone means this kind."""

    kind: Literal["constant"] = "constant"
    # Probability of the true token. Default: 0.5, that of common tutorials.
    value: Probability = 0.5

    number_key: ClassVar[str] = "value"

    def ratio(self, i: float) -> float:
        """The teacher forcing ratio at update i."""
        return self.value


TeacherForcingRatioConfig = ConstantRatioConfig | LinearDecayConfig | ExponentialDecayConfig | InverseSigmoidDecayConfig


@config
class TeacherForcingConfig(DecoderInputConfigBase):
    """The decoder reads the true tokens (see TeacherForcing)."""

    reads_truth: ClassVar[bool] = True

    kind: Literal["teacher_forcing"] = "teacher_forcing"
    builds: ClassVar[str] = "training.decoder_inputs.teacher_forcing:TeacherForcing"


@config
class SampledInputConfig(DecoderInputConfigBase):
    """Keys of the decoder inputs that mix the true tokens with sampled predictions."""

    passes_depend_on_data: ClassVar[bool] = True

    kind: str
    # Probability of reading the true token, by update. Default: inverse_sigmoid, which starts with the truth alone.
    teacher_forcing_ratio: TeacherForcingRatioConfig = field(default_factory=InverseSigmoidDecayConfig)
    # Whether truth or prediction is chosen for each token or for each sentence. Default: token, as in the paper of
    # scheduled sampling.
    per: Literal["token", "sentence"] = "token"
    # Choice of the predicted token. Default: multinomial, which shows the decoder more than its best guess.
    sampler: SamplerName = "multinomial"
    # Divisor of the logits of multinomial and gumbel; below 1 is closer to argmax. Default: 1, the model's own
    # distribution.
    temperature: Temperature = 1.0

    def ratio_at(self, update: float) -> float:
        """Teacher forcing ratio at an update (1 is the first)."""
        return self.teacher_forcing_ratio.ratio(update - 1)


@config
class ScheduledSamplingConfig(SampledInputConfig):
    """The decoder at times reads its own prediction (see ScheduledSampling); computed step by step, hence slower."""

    kind: Literal["scheduled_sampling"] = "scheduled_sampling"
    builds: ClassVar[str] = "training.decoder_inputs.scheduled_sampling:ScheduledSampling"


@config
class ParallelSamplingConfig(SampledInputConfig):
    """The decoder at times reads its predictions of a preceding pass (see ParallelSampling); a pass costs a forward."""

    kind: Literal["parallel_sampling"] = "parallel_sampling"
    builds: ClassVar[str] = "training.decoder_inputs.scheduled_sampling:ParallelSampling"
    # Passes that predict, before the one that learns. Default: 1, the two-pass method.
    num_passes: Annotated[int, Limits(gt=0)] = 1


@config
class ConfidenceAwareConfig(DecoderInputConfigBase):
    """The decoder reads its own prediction where it is confident (see ConfidenceAware); costs an extra forward."""

    passes_depend_on_data: ClassVar[bool] = True

    kind: Literal["confidence_aware"] = "confidence_aware"
    builds: ClassVar[str] = "training.decoder_inputs.noise:ConfidenceAware"
    # Confidence up to which the decoder reads the truth. Default: the paper's, sec. 4.2.
    golden: Probability = 0.9
    # Confidence above which the decoder reads a random token; between the two it reads its prediction. Default: the
    # paper's, sec. 4.2.
    random: Probability = 0.95

    def __post_init__(self) -> None:
        if self.random < self.golden:
            raise ValueError(f"random: {self.random} is below golden, {self.golden}; set it to that or above")


@config
class WordDropoutConfig(DecoderInputConfigBase):
    """Some tokens of the decoder input are replaced by unk (see WordDropout)."""

    kind: Literal["word_dropout"] = "word_dropout"
    builds: ClassVar[str] = "training.decoder_inputs.noise:WordDropout"
    # Probability that a token is replaced. Default: a tenth leaves most of the sentence readable.
    rate: Annotated[float, Limits(ge=0, le=1)] = 0.1


@config
class SwitchOutConfig(DecoderInputConfigBase):
    """Some tokens of the decoder input are replaced by random ones (see SwitchOut)."""

    kind: Literal["switch_out"] = "switch_out"
    builds: ClassVar[str] = "training.decoder_inputs.noise:SwitchOut"
    # Temperature of the number of replaced tokens; a larger one replaces more. Default: 1, half a token per sentence.
    temperature: Annotated[float, Limits(gt=0)] = 1.0


DecoderInputConfig = (
    TeacherForcingConfig
    | ScheduledSamplingConfig
    | ParallelSamplingConfig
    | ConfidenceAwareConfig
    | WordDropoutConfig
    | SwitchOutConfig
)
