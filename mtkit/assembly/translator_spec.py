"""Specification of a translator: everything that decides which translator is loaded, and what it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mtkit import __version__
from mtkit.assembly.engine import device_name, resolved_compute_type
from mtkit.assembly.translator import load_translator, override_keys
from mtkit.errors import UsageError
from mtkit.inference.compute_type import ComputeType
from mtkit.io.files import hash_files
from mtkit.model_folder.config_file import model_hash
from mtkit.model_folder.folder import ModelMetadata, find_model, read_metadata
from mtkit.recipe.tree import load_search
from mtkit.translate.fidelity.glossary import Glossary, read_glossary
from mtkit.translate.translator import TranslationOptions, Translator


@dataclass(frozen=True, kw_only=True)
class TranslatorSpec:
    """The arguments of `load_translator` as one value, which can be sent to worker processes.

    Its methods raise the errors of `load_translator`.
    """

    models: Sequence[Path]
    search_overrides: Sequence[str] = ()
    compute_type: ComputeType = "auto"
    device: str | None = None
    threads: int | None = None
    options: TranslationOptions = field(default_factory=TranslationOptions)

    def load(self) -> Translator:
        """Load the translator."""
        return load_translator(**vars(self))

    def settings(self) -> dict[str, Any]:
        """Everything that determines the translation of a line, as plain values."""
        language = self.options.language_model
        return {
            "mtkit": __version__,
            "models": [model_hash(find_model(path)) for path in self.models],
            "search": list(self.search_overrides),
            "compute_type": resolved_compute_type(self.compute_type, device_name(self.device)),
            "rewrite": self.options.rewrite,
            "split_sentences": self.options.split_sentences,
            "source_prefix": asdict(self.options.source_prefix),
            "language_model": None
            if language is None
            else [model_hash(find_model(language.model)), language.weight, language.mode],
            "adapter": None if self.options.adapter is None else hash_files(self.options.adapter),
            "with_scores": self.options.with_scores,
            "glossary": None if self.options.glossary is None else self.options.glossary.terms,
            "restore": self.options.restore,
        }

    def unwritten_n_best(self) -> str | None:
        """A note for output with one translation a line: the model's own n_best has no effect; None if it is 1.

        Raises:
            UsageError: the overrides ask for more than one translation.
        """
        n_best = load_search(_metadata(self.models[0]).search, self.search_overrides).n_best
        if n_best == 1:
            return None
        sentence = f"search.n_best: {n_best} has no effect here: one translation is written for each line"
        if "n_best" in override_keys(self.search_overrides):
            raise UsageError(f"{sentence}; use --n-best {n_best} instead, or add --jsonl")
        return f"{sentence}; --n-best {n_best} or --jsonl writes all"

    def require_attention(self) -> None:
        """Check that word alignments can be computed.

        Raises:
            UsageError: no model has attention over the source.
        """
        models = [_metadata(path).model for path in self.models]
        if not any(model.has_attention for model in models):
            raise UsageError(
                f"translate: --alignments needs attention over the source; a model of kind {models[0].kind} has none"
            )


def model_glossary(model: Path, files: Sequence[Path]) -> Glossary:
    """Read glossary files for the languages of a model; errors as `read_glossary` and `read_metadata`."""
    metadata = _metadata(model)
    return read_glossary(files, metadata.src_lang, metadata.tgt_lang)


def _metadata(model: Path) -> ModelMetadata:
    return read_metadata(find_model(model))
