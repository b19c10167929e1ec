"""The protocols of training objectives and of the sampler of translations, and the inputs of objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from mtkit.corpus.ibm_model1 import Lexicon
from mtkit.corpus.order.batch import Source
from mtkit.models.interface import Objective, TranslationModel
from mtkit.training.decoder_inputs.interface import DecoderInput, TargetVocabIds

RewardName = Literal["bleu", "chrf"]


class ObjectiveConfigBase:
    """Capabilities of an objective's configuration; a kind overrides those that differ."""

    trains_encoder_only: ClassVar[bool] = False  # scores masked source tokens; there is no target side
    predicts_source: ClassVar[bool] = False  # scores each source token given the preceding ones
    passes_depend_on_data: ClassVar[bool] = False  # the number of forward passes of a micro-batch depends on its data
    needs_teacher_forcing: ClassVar[bool] = False  # compares states with those of a model that reads the true tokens

    needs_attention: ClassVar[bool] = False  # of all target tokens over the source
    needs_lexicon: ClassVar[bool] = False  # of the training corpora

    @property
    def teacher_model(self) -> Path | None:
        """Model folder or run of a teacher; None without one."""
        return None


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
