"""The protocols of training objectives and of the sampler of translations, and the inputs of objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.order.batch import Source
from mtkit.models.interface import Objective, TranslationModel
from mtkit.training.decoder_inputs.interface import DecoderInput, TargetVocabIds
from mtkit.training.key_types import RewardName


class TrainingObjective(Objective, Protocol):
    """An objective that may depend on the update."""

    def set_update(self, update: int) -> None:
        """Set the number of the update that is computed next (1 is the first)."""
        ...


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
