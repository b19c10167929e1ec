"""The protocols of training objectives and of the sampler of translations, and the inputs of objectives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.order.batch import Batch, Source
from mtkit.models.interface import Losses, TranslationModel
from mtkit.training.decoder_inputs.interface import DecoderInput, TargetVocabIds
from mtkit.training.objectives.config import RewardName


class TrainingObjective(ABC):
    """An objective that may depend on the update."""

    @abstractmethod
    def __call__(self, model: TranslationModel, batch: Batch) -> Losses:
        """Compute the losses of one micro-batch; `sum` is minimised, `extra` is logged."""

    def set_update(self, update: float) -> None:  # noqa: B027 (most objectives are the same at every update)
        """Set the number of the update that is computed next (1 is the first)."""


class TokenObjective(TrainingObjective):
    """Base of objectives whose terms are sums over the positions in the loss, given the tokens that the decoder reads.

    Args:
        decoder_input: returns the decoder states [N, D] of the N positions in the loss.
        smoothing: label smoothing of the cross-entropy, 0 <= smoothing < 1.
    """

    def __init__(self, decoder_input: DecoderInput, smoothing: float) -> None:
        self.decoder_input = decoder_input
        self.smoothing = smoothing

    def set_update(self, update: float) -> None:
        """Pass the update on to the decoder input, whose sampling rate may depend on it."""
        self.decoder_input.set_update(update)


class TranslationSampler(Protocol):
    """Samples translations and rates them; passed in, because training imports neither search nor text."""

    def sample(
        self, model: TranslationModel, source: Source, *, count: int, temperature: float
    ) -> list[list[list[int]]]:
        """`count` sampled translations of each sentence, as token ids without bos and eos."""
        ...

    def reward(self, name: RewardName, hyps: Sequence[Sequence[int]], ref: Sequence[int]) -> list[float]:
        """The quality of each translation of a sentence, 0 to 1; token ids without bos and eos."""
        ...


@dataclass(frozen=True)
class ObjectiveInputs:
    """The components from which objectives are built, besides their own configuration.

    Attributes:
        decoder_input: determines the tokens that the decoder reads.
        smoothing: label smoothing, 0 <= smoothing < 1.
        vocab_ids: ids of the target vocabulary.
        translation_sampler: samples and rates translations.
        teacher: the model of `ObjectiveConfigBase.teacher_model`, on the training device.
        lexicon: of the training corpora; None: without one, or in a dry run.
    """

    decoder_input: DecoderInput
    smoothing: float
    vocab_ids: TargetVocabIds
    translation_sampler: TranslationSampler
    teacher: TranslationModel | None = None
    lexicon: Lexicon | None = None
