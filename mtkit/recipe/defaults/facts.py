"""Facts that the rules for omitted keys depend on, and the values decided so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mtkit.recipe.defaults.statistics import CorpusStatistics


@dataclass(frozen=True)
class Limits:
    """Limits of a time budget; None: no limit.

    Attributes:
        size: largest model size, an index of `model_size.SIZES`.
        updates: most updates that fit.
        batch_tokens: largest batch with which enough updates fit.
        hours: of the budget.
        words: the budget as the user wrote it.
    """

    size: int | None = None
    updates: int | None = None
    batch_tokens: int | None = None
    hours: float | None = None
    words: str = ""


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Facts:
    """Facts about corpus and machine.

    Attributes:
        corpus: statistics of the training text.
        has_gpu: whether training runs on a GPU.
        has_valid: whether the recipe has a validation set.
        limits: of a time budget.
    """

    corpus: CorpusStatistics
    has_gpu: bool
    has_valid: bool
    limits: Limits = NO_LIMITS


Values = Mapping[str, Any]  # key -> value, of the keys that the recipe states and of those that earlier rules chose


@dataclass(frozen=True)
class Choice:
    """Value of a key, and the reason in a few words: the facts that it follows from."""

    value: Any
    reason: str
