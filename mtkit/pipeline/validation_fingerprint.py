"""What a validation measures: values of the same measure can be compared, others cannot."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from mtkit.corpus.store import Store
from mtkit.recipe.recipe import Recipe, plain
from mtkit.search.config import SearchConfig

_OWN = {"beam_size", "n_best", "method", "rerank"}  # of a search; validation has its own, see build_validator


_SEARCH = [each.name for each in dataclasses.fields(SearchConfig) if each.name not in _OWN]


OF_BLEU = frozenset({"evaluation.tokenize", *(f"search.{name}" for name in _SEARCH)})  # what its BLEU depends on


def measure(recipe: Recipe, valid: Store | None) -> str:
    """A hash of all that the values of `training.validation.metric` depend on, the model apart."""
    validation = recipe.training.validation
    text = [] if valid is None else [valid.manifest.src.sha256, valid.manifest.tgt.sha256]
    content: list[Any] = [validation.metric, text]
    if validation.metric == "bleu":
        search = {name: plain(getattr(recipe.search, name)) for name in _SEARCH}
        content += [validation.sentences, validation.beam_size, search, recipe.evaluation.tokenize]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
