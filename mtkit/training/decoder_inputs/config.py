"""Configurations of decoder inputs, and the union of kinds that a recipe can name."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtkit.config import Limits, config
from mtkit.training.decoder_inputs.capabilities import DecoderInputConfigBase
from mtkit.training.decoder_inputs.teacher_forcing_ratio import InverseSigmoidDecayConfig, TeacherForcingRatioConfig
from mtkit.training.key_types import SamplerName, Temperature

if TYPE_CHECKING:
    from mtkit.training.decoder_inputs.experimental.confidence_aware import ConfidenceAware
    from mtkit.training.decoder_inputs.experimental.switch_out import SwitchOut
    from mtkit.training.decoder_inputs.experimental.word_dropout import WordDropout
    from mtkit.training.decoder_inputs.interface import TargetVocabIds
    from mtkit.training.decoder_inputs.parallel_sampling import ParallelSampling
    from mtkit.training.decoder_inputs.scheduled_sampling import ScheduledSampling
    from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing


@config
class TeacherForcingConfig(DecoderInputConfigBase):
    """The decoder reads the true tokens (see TeacherForcing)."""

    reads_truth: ClassVar[bool] = True

    kind: Literal["teacher_forcing"] = "teacher_forcing"

    def build(self, vocab_ids: TargetVocabIds) -> TeacherForcing:
        """The decoder input."""
        from mtkit.training.decoder_inputs.teacher_forcing import TeacherForcing

        return TeacherForcing()


@config
class ScheduledSamplingConfig(DecoderInputConfigBase):
    """The decoder at times reads its own prediction (see ScheduledSampling); computed step by step, hence slower."""

    passes_depend_on_data: ClassVar[bool] = True

    kind: Literal["scheduled_sampling"] = "scheduled_sampling"
    # Probability of reading the true token, by update. Default: inverse_sigmoid, which starts with the truth alone.
    teacher_forcing_ratio: TeacherForcingRatioConfig = field(default_factory=InverseSigmoidDecayConfig)
    # Whether truth or prediction is chosen for each token or for each sentence. Default: token, the paper's.
    per: Literal["token", "sentence"] = "token"
    # Choice of the predicted token. Default: multinomial, which shows the decoder more than its best guess.
    sampler: SamplerName = "multinomial"
    # Divisor of the logits of multinomial and gumbel; below 1 is closer to argmax. Default: 1, the model's own
    # distribution.
    temperature: Temperature = 1.0

    def ratio_at(self, update: int) -> float | None:
        """Teacher forcing ratio at an update (1 is the first)."""
        return self.teacher_forcing_ratio.ratio(update - 1)

    def build(self, vocab_ids: TargetVocabIds) -> ScheduledSampling:
        """The decoder input."""
        from mtkit.training.decoder_inputs.scheduled_sampling import TRUTH_MASKS, ScheduledSampling
        from mtkit.training.decoder_inputs.token_sampler import make_sampler

        sampler = make_sampler(self.sampler, self.temperature)
        return ScheduledSampling(self.teacher_forcing_ratio.ratio, TRUTH_MASKS[self.per], sampler)


@config
class ParallelSamplingConfig(DecoderInputConfigBase):
    """The decoder at times reads its predictions of a preceding pass (see ParallelSampling); a pass costs a forward."""

    passes_depend_on_data: ClassVar[bool] = True

    kind: Literal["parallel_sampling"] = "parallel_sampling"
    # Probability of reading the true token, by update. Default: inverse_sigmoid, which starts with the truth alone.
    teacher_forcing_ratio: TeacherForcingRatioConfig = field(default_factory=InverseSigmoidDecayConfig)
    # Whether truth or prediction is chosen for each token or for each sentence. Default: token, as in scheduled
    # sampling.
    per: Literal["token", "sentence"] = "token"
    # Choice of the predicted token. Default: multinomial, which shows the decoder more than its best guess.
    sampler: SamplerName = "multinomial"
    # Divisor of the logits of multinomial and gumbel; below 1 is closer to argmax. Default: 1, the model's own
    # distribution.
    temperature: Temperature = 1.0
    # Passes that predict, before the one that learns. Default: 1, the two-pass method.
    num_passes: Annotated[int, Limits(gt=0)] = 1

    def ratio_at(self, update: int) -> float | None:
        """Teacher forcing ratio at an update (1 is the first)."""
        return self.teacher_forcing_ratio.ratio(update - 1)

    def build(self, vocab_ids: TargetVocabIds) -> ParallelSampling:
        """The decoder input."""
        from mtkit.training.decoder_inputs.parallel_sampling import ParallelSampling
        from mtkit.training.decoder_inputs.scheduled_sampling import TRUTH_MASKS
        from mtkit.training.decoder_inputs.token_sampler import make_sampler

        sampler = make_sampler(self.sampler, self.temperature)
        return ParallelSampling(
            self.teacher_forcing_ratio.ratio, TRUTH_MASKS[self.per], sampler, num_passes=self.num_passes
        )


Probability = Annotated[float, Limits(ge=0, le=1)]


@config
class ConfidenceAwareConfig(DecoderInputConfigBase):
    """The decoder reads its own prediction where it is confident (see ConfidenceAware); costs an extra forward."""

    passes_depend_on_data: ClassVar[bool] = True

    kind: Literal["confidence_aware"] = "confidence_aware"
    # Confidence up to which the decoder reads the truth. Default: the paper's, sec. 4.2.
    golden: Probability = 0.9
    # Confidence above which the decoder reads a random token; between the two it reads its prediction. Default: the
    # paper's, sec. 4.2.
    random: Probability = 0.95

    def __post_init__(self) -> None:
        if self.random < self.golden:
            raise ValueError(f"random: {self.random} is below golden, {self.golden}; set it to that or above")

    def build(self, vocab_ids: TargetVocabIds) -> ConfidenceAware:
        """The decoder input."""
        from mtkit.training.decoder_inputs.experimental.confidence_aware import ConfidenceAware

        return ConfidenceAware(self.golden, self.random, vocab_ids)


@config
class WordDropoutConfig(DecoderInputConfigBase):
    """Some tokens of the decoder input are replaced by unk (see WordDropout)."""

    kind: Literal["word_dropout"] = "word_dropout"
    # Probability that a token is replaced. Default: a tenth leaves most of the sentence readable.
    rate: Annotated[float, Limits(ge=0, le=1)] = 0.1

    def build(self, vocab_ids: TargetVocabIds) -> WordDropout:
        """The decoder input."""
        from mtkit.training.decoder_inputs.experimental.word_dropout import WordDropout

        return WordDropout(self.rate, vocab_ids.unk)


@config
class SwitchOutConfig(DecoderInputConfigBase):
    """Some tokens of the decoder input are replaced by random ones (see SwitchOut)."""

    kind: Literal["switch_out"] = "switch_out"
    # Temperature of the number of replaced tokens; a larger one replaces more. Default: 1, half a token per sentence.
    temperature: Annotated[float, Limits(gt=0)] = 1.0

    def build(self, vocab_ids: TargetVocabIds) -> SwitchOut:
        """The decoder input."""
        from mtkit.training.decoder_inputs.experimental.switch_out import SwitchOut

        return SwitchOut(self.temperature, vocab_ids)


DecoderInputConfig = (
    TeacherForcingConfig
    | ScheduledSamplingConfig
    | ParallelSamplingConfig
    | ConfidenceAwareConfig
    | WordDropoutConfig
    | SwitchOutConfig
)
