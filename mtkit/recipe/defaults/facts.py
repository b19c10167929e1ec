"""Facts that the rules for omitted keys depend on, such as a time budget, and the values decided so far."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtkit.errors import UsageError
from mtkit.recipe.defaults.statistics import CorpusStatistics

MIN_HOURS, MAX_HOURS = 1 / 60, 240_000.0  # of a budget
BUDGET_SHARE = 0.9  # of a budget may be spent on updates; the rest is for the other stages
_UNITS = {"m": 1 / 60, "h": 1.0, "d": 24.0}


@dataclass(frozen=True)
class BudgetLimits:
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

    @property
    def training_hours(self) -> float | None:
        """Hours of the budget that may be spent on updates."""
        return None if self.hours is None else round(BUDGET_SHARE * self.hours, 4)


NO_LIMITS = BudgetLimits()


def parse_budget(text: str) -> BudgetLimits:
    """Parse `30m`, `2h`, `1d` or `best`.

    Raises:
        UsageError: it is none of these, or not from MIN_HOURS to MAX_HOURS.
    """
    if text == "best":
        return BudgetLimits(words="best")
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([mhd])", text)
    hours = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not MIN_HOURS <= hours <= MAX_HOURS:
        raise UsageError(
            f"--budget {text}: not a time from 1m to {MAX_HOURS / 24:.0f}d; write 30m, 2h, 1d, or best for no limit"
        )
    return BudgetLimits(hours=hours, words=text)


def check_budget(budget: str | None, overrides: Sequence[str]) -> BudgetLimits:
    """Parse a budget, and check that no override decides what the budget decides.

    Args:
        budget: see `parse_budget`; None: no limit except that of the machine.
        overrides: of a recipe, `key=value` each.

    Raises:
        UsageError: as `parse_budget`; or an override states the updates, the hours, or that nothing is chosen.
    """
    if budget is None:
        return NO_LIMITS
    limits = parse_budget(budget)
    for override in overrides:
        if override.partition("=")[0] in ("training.max_updates", "training.budget_hours", "defaults"):
            raise UsageError(f"--budget {budget} and {override} contradict each other; give one of them")
    return limits


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
    limits: BudgetLimits = NO_LIMITS


Values = Mapping[str, Any]  # key -> value, of the keys that the recipe states and of those that earlier rules chose


@dataclass(frozen=True)
class Choice:
    """Value of a key, and the reason in a few words: the facts that it follows from."""

    value: Any
    reason: str
