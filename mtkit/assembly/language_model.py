"""A language model beside a translation model: in each step of its search, or as a ranking of its hypotheses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.assembly.engine import load_engine
from mtkit.errors import DataError, UsageError
from mtkit.inference.compute_type import ComputeType
from mtkit.model_folder.folder import StoredModel, read_stored_model
from mtkit.search.config import SearchConfig
from mtkit.translate.reranking import LanguageModelReranking
from mtkit.translate.translation import LanguageModelOptions

if TYPE_CHECKING:
    from mtkit.translate.engines.model_engine import FusedLanguageModel


@dataclass(frozen=True)
class LanguageModelRanking:
    """A language model that was read, and its options."""

    options: LanguageModelOptions
    loaded: StoredModel

    @classmethod
    def read(cls, options: LanguageModelOptions, translation: StoredModel) -> LanguageModelRanking:
        """Read the language model that is to rank the hypotheses of a translation model.

        Raises:
            UsageError: the model translates.
            DataError: it is damaged, or shallow fusion is asked for and its vocabulary is another one.
            MissingInputError: as `read_stored_model`.
        """
        loaded = read_stored_model(Path(options.model))
        if not loaded.metadata.is_language_model:
            raise UsageError(
                f"{loaded.folder}: a translation model; --lm needs a language model, trained with corpus.noise.kind "
                "language_model"
            )
        ours, theirs = loaded.tokenizers.tgt, translation.tokenizers.tgt
        is_same = (ours.hash(), ours.normalisation) == (theirs.hash(), theirs.normalisation)
        if options.mode == "fusion" and not is_same:
            raise DataError(
                f"{loaded.folder}: its vocabulary differs from the target vocabulary of {translation.folder}; train it "
                "with that tokenizer (tokenizer.model), or use --lm-mode rerank"
            )
        return cls(options, loaded)

    def limit(self, search: SearchConfig) -> SearchConfig:
        """The search within the length that the language model can read; UsageError if there is nothing to rank."""
        if self.options.mode == "rerank" and search.num_hypotheses == 1:
            raise UsageError("--lm-mode rerank: there is only one hypothesis to choose from; raise the beam size")
        return search.limited_to(self.loaded.metadata.model.max_target_length())

    def fused(self) -> FusedLanguageModel | None:
        """The language model of shallow fusion; None in the other mode."""
        if self.options.mode != "fusion":
            return None
        from mtkit.translate.engines.model_engine import FusedLanguageModel

        return FusedLanguageModel(self.loaded.load().model, self.loaded.tokenizers.tgt.vocab, self.options.weight)

    def reranking(
        self, search: SearchConfig, *, compute_type: ComputeType, device: str, rewrite: bool
    ) -> LanguageModelReranking | None:
        """The reranking of complete hypotheses, on the device of the translation model; None in the other mode."""
        if self.options.mode != "rerank":
            return None
        engine = load_engine([self.loaded], compute_type=compute_type, device=device, rewrite=rewrite)
        return LanguageModelReranking(engine, self.loaded.tokenizers, self.options.weight, search.penalty())
