"""Validation on all processes, each of which computes a shard of the validation set, and by a command of the user."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Protocol, TypeVar

from mtkit.errors import RecipeError
from mtkit.io.shell_command import MAX_SHOWN, run_on_texts
from mtkit.models.interface import TranslationModel
from mtkit.training.config import Goal, Metric
from mtkit.training.distributed import SINGLE_PROCESS, ProcessGroup


@dataclass(frozen=True)
class Validation:
    """Result of a validation.

    Attributes:
        nll: nats per target token, without label smoothing.
        calibration: token accuracy, calibration error and reliability table, for the log; empty if not measured.
        bleu: of the decoded subset of the validation set, 0 to 100; None if nothing was decoded.
        bleu_by_set: BLEU of each validation set by name; empty if there is only one.
        nll_by_set: nll of each validation set by name; empty if there is only one.
        command: number of `training.validation.command`; None without a command, or if it failed.
        sample: source, hypothesis and reference of one sentence, for the display; None if nothing was decoded.
    """

    nll: float
    bleu: float | None = None
    sample: tuple[str, str, str] | None = None
    calibration: Mapping[str, Any] = field(default_factory=dict)
    bleu_by_set: Mapping[str, float] = field(default_factory=dict)
    command: float | None = None
    nll_by_set: Mapping[str, float] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """The fields of the log's event."""
        perplexity = math.exp(min(self.nll, 700.0))
        values = {"nll": self.nll, "perplexity": perplexity, "bleu": self.bleu, "sample": self.sample}
        sets = {"nll_by_set": self.nll_by_set, "bleu_by_set": self.bleu_by_set}
        by_set = {name: dict(values) for name, values in sets.items() if values}
        command = {} if self.command is None else {"command": self.command}
        return {**values, **command, **by_set, **self.calibration}

    def value(self, metric: Metric, command_goal: Goal = "max") -> float | None:
        """Return the metric with the sign that makes lower values better; None if the command failed.

        Raises:
            ValueError: the metric is bleu and nothing was decoded.
        """
        if metric == "nll":
            return self.nll
        if metric == "command":
            return -self.command if self.command is not None and command_goal == "max" else self.command
        if self.bleu is None:
            raise ValueError("the validation gave no BLEU")
        return -self.bleu


T = TypeVar("T")


@dataclass(frozen=True)
class ValidationShard:
    """Result of one process.

    Attributes:
        nats: summed loss of each of its batches.
        tokens: scored tokens of each of these batches.
        hyps: translation of each of its sentences.
        predictions: counts of each of its batches, see evaluation/calibration.py.
        sets: number of the validation set of each of its batches.
    """

    nats: list[float]
    tokens: list[int]
    hyps: list[str]
    predictions: list[list[list[float]]] = field(default_factory=list)
    sets: list[int] = field(default_factory=list)


class ShardedValidator(Protocol):
    """Validation of a model in two steps; it does not change the weights."""

    def validate_shard(self, model: TranslationModel, update: int, ranks: ProcessGroup) -> ValidationShard:
        """Compute this process's shard without collective operations; a signal may interrupt it."""
        ...

    def merge_shards(self, shards: Sequence[ValidationShard]) -> Validation:
        """Merge the shards of all ranks, in their order."""
        ...


def unshard(shards: Sequence[Sequence[T]]) -> list[T]:
    """Undo round-robin sharding: interleave the shards back into the original order."""
    missing = object()
    rounds = zip_longest(*shards, fillvalue=missing)
    return [each for row in rounds for each in row if each is not missing]  # type: ignore[misc]


KEY = "training.validation.command"


class ValidationCommand:
    """A shell command that scores translations.

    It reads the files that the environment variables SRC, HYP and REF name, one sentence a line, and prints a number as
    the last line of its output. It runs in its own session, so that Ctrl-C does not end it: the training ends after it.

    Args:
        command: for the shell.
        ranks: the processes that train; the first runs the command, and all receive its number.
        notify: receives a sentence about a failure.
    """

    def __init__(
        self, command: str, *, ranks: ProcessGroup = SINGLE_PROCESS, notify: Callable[[str], None] = lambda text: None
    ) -> None:
        self.command = command
        self._ranks, self._notify = ranks, notify

    def check(self, src: Sequence[str], refs: Sequence[str]) -> None:
        """Run the command with the references as translations, so that a mistake shows before hours of training.

        Raises:
            RecipeError: the command fails or prints no number.
        """
        if not self._ranks.is_first:
            return
        try:
            run_command(self.command, {"SRC": src, "HYP": refs, "REF": refs})
        except ValueError as error:
            raise RecipeError(f"{KEY}: {error}; tried with the references as translations") from error

    def __call__(self, src: Sequence[str], hyps: Sequence[str], refs: Sequence[str]) -> float | None:
        """Return the number; None after a failure, which is reported and does not end the training."""
        number = math.nan
        if self._ranks.is_first:
            try:
                number = run_command(self.command, {"SRC": src, "HYP": hyps, "REF": refs})
            except ValueError as error:
                self._notify(f"{error}; this validation does not count for the best checkpoint and patience")
        number = self._ranks.broadcast([number])[0]
        return None if math.isnan(number) else number


def run_command(command: str, texts: Mapping[str, Sequence[str]]) -> float:
    """The number in the last line that a shell command prints.

    Raises:
        ValueError: the line is not a finite number; also as `run_on_texts`.
    """
    line = (run_on_texts(command, texts) or [""])[-1][:MAX_SHOWN]
    try:
        number = float(line)
    except ValueError as error:
        raise ValueError(f"{command!r} printed {line!r} and not a number as its last line") from error
    if not math.isfinite(number):
        raise ValueError(f"{command!r} printed {line}, which is not finite")
    return number
