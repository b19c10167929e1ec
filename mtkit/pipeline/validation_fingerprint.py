"""Fingerprint of the validation metric: only values with equal fingerprints can be compared."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from mtkit.corpus.store import Store
from mtkit.recipe.recipe import Recipe, to_plain
from mtkit.search.config import SearchConfig

_OVERRIDDEN = {
    "beam_size",
    "n_best",
    "method",
    "rerank",
}  # search keys that validation sets itself, see build_validator
_SEARCH_KEYS = [field.name for field in dataclasses.fields(SearchConfig) if field.name not in _OVERRIDDEN]
BLEU_KEYS = frozenset({"evaluation.tokenize", *(f"search.{name}" for name in _SEARCH_KEYS)})  # affect validation BLEU


def validation_fingerprint(recipe: Recipe, valid: Store | None) -> str:
    """Return a hash of everything except the model that `training.validation.metric` depends on."""
    validation = recipe.training.validation
    text = [] if valid is None else [valid.manifest.src.sha256, valid.manifest.tgt.sha256]
    content: list[Any] = [validation.metric, text]
    if validation.metric == "bleu":
        search = {name: to_plain(getattr(recipe.search, name)) for name in _SEARCH_KEYS}
        content += [validation.sentences, validation.beam_size, search, recipe.evaluation.tokenize]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
