"""Configurations of noise, and the union of kinds that a recipe can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtkit.config import Limits, config

if TYPE_CHECKING:
    from mtkit.corpus.noise.bart import BartNoise
    from mtkit.corpus.noise.mlm import MLMMasking
    from mtkit.corpus.noise.noise import EmptySource, NoiseVocab
    from mtkit.corpus.noise.span_corruption import SpanCorruption

Rate = Annotated[float, Limits(ge=0, lt=1)]
Probability = Annotated[float, Limits(ge=0, le=1)]


@config
class SpanCorruptionConfig:
    """Remove spans and predict them (see SpanCorruption); targets are short, so that an update is cheap."""

    kind: Literal["span_corruption"] = "span_corruption"
    trains_encoder_only: ClassVar[bool] = False
    has_source: ClassVar[bool] = True
    # Share of the tokens that are removed. Default: Raffel et al. 2020, table 6.
    noise_density: Annotated[float, Limits(gt=0, lt=1)] = 0.15
    # Mean length of a removed span in tokens. Default: Raffel et al. 2020, table 7.
    mean_span_length: Annotated[float, Limits(ge=1)] = 3.0

    def build(self, vocab: NoiseVocab) -> SpanCorruption:
        """The noise function."""
        from mtkit.corpus.noise.span_corruption import SpanCorruption

        return SpanCorruption(vocab, noise_density=self.noise_density, mean_span_length=self.mean_span_length)


@config
class BartNoiseConfig:
    """Fill gaps and restore the order (see BartNoise); the target is the whole text."""

    kind: Literal["bart"] = "bart"
    trains_encoder_only: ClassVar[bool] = False
    has_source: ClassVar[bool] = True
    # Share of the tokens that are removed in spans, with one mask for each span (text infilling). Default: Lewis et al.
    # 2020, sec. 5.1.
    infilling_rate: Rate = 0.3
    # Mean length of a removed span in tokens; lengths are Poisson distributed. Default: Lewis et al. 2020, sec. 2.2.
    mean_span_length: Annotated[float, Limits(gt=0, le=50)] = 3.0
    # Share of the tokens that are masked one by one (token masking). Default: 0, because infilling masks already.
    masking_rate: Rate = 0.0
    # Share of the tokens that are removed without a mask (token deletion). Default: 0; the paper's model has infilling
    # and permutation alone.
    deletion_rate: Rate = 0.0
    # Shuffle the sentences of a line that has several. Default: true, as in the paper's model.
    permute_sentences: bool = True

    def __post_init__(self) -> None:
        if not (self.infilling_rate or self.masking_rate or self.deletion_rate or self.permute_sentences):
            raise ValueError("infilling_rate: all noise is turned off; set one of the rates above 0")

    def build(self, vocab: NoiseVocab) -> BartNoise:
        """The noise function."""
        from mtkit.corpus.noise.bart import BartNoise

        return BartNoise(
            vocab,
            infilling_rate=self.infilling_rate,
            mean_span_length=self.mean_span_length,
            masking_rate=self.masking_rate,
            deletion_rate=self.deletion_rate,
            permute_sentences=self.permute_sentences,
        )


@config
class MLMMaskingConfig:
    """Mask tokens (see MLMMasking); for training.objective.kind masked_lm."""

    kind: Literal["mlm"] = "mlm"
    trains_encoder_only: ClassVar[bool] = True
    has_source: ClassVar[bool] = True
    # Share of the tokens that are predicted. Default: BERT's.
    masking_rate: Annotated[float, Limits(gt=0, le=1)] = 0.15
    # Share of the predicted tokens that the mask token replaces. Default: BERT's.
    mask_replace_prob: Probability = 0.8
    # Share of the predicted tokens that a random token replaces; the others stay as they are. Default: BERT's.
    random_replace_prob: Probability = 0.1

    def __post_init__(self) -> None:
        if self.mask_replace_prob + self.random_replace_prob > 1:
            raise ValueError(
                f"random_replace_prob: {self.random_replace_prob} and mask_replace_prob {self.mask_replace_prob} sum "
                "to more than 1; lower one"
            )

    def build(self, vocab: NoiseVocab) -> MLMMasking:
        """The noise function."""
        from mtkit.corpus.noise.mlm import MLMMasking

        return MLMMasking(
            vocab,
            masking_rate=self.masking_rate,
            mask_replace_prob=self.mask_replace_prob,
            random_replace_prob=self.random_replace_prob,
        )


@config
class LanguageModelConfig:
    """Predict each text from an empty source (see EmptySource); a language model if all training text is such text."""

    kind: Literal["language_model"] = "language_model"
    trains_encoder_only: ClassVar[bool] = False
    has_source: ClassVar[bool] = False

    def build(self, vocab: NoiseVocab) -> EmptySource:
        """The noise function."""
        from mtkit.corpus.noise.noise import EmptySource

        return EmptySource()


NoiseConfig = SpanCorruptionConfig | BartNoiseConfig | MLMMaskingConfig | LanguageModelConfig
