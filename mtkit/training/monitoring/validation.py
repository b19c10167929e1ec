"""Validation on all processes: each computes a shard of the validation set, and the results are merged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Protocol, TypeVar

from mtkit.models.interface import TranslationModel
from mtkit.training.distributed.process_group import ProcessGroup
from mtkit.training.key_types import Goal, Metric


@dataclass(frozen=True)
class Validation:
    """Result of a validation.

    Attributes:
        nll: nats per target token, without label smoothing.
        calibration: token accuracy, calibration error and reliability table, for the log; empty if not measured.
        bleu: of the decoded subset of the validation set, 0 to 100; None if nothing was decoded.
        bleu_by_set: BLEU of each validation set by name; empty if there is only one.
        command: number of `training.validation.command`; None without a command, or if it failed.
        sample: source, hypothesis and reference of one sentence, for the display; None if nothing was decoded.
    """

    nll: float
    bleu: float | None = None
    sample: tuple[str, str, str] | None = None
    calibration: Mapping[str, Any] = field(default_factory=dict)
    bleu_by_set: Mapping[str, float] = field(default_factory=dict)
    command: float | None = None

    def fields(self) -> dict[str, Any]:
        """The fields of the log's event."""
        perplexity = math.exp(min(self.nll, 700.0))
        values = {"nll": self.nll, "perplexity": perplexity, "bleu": self.bleu, "sample": self.sample}
        by_set = {"bleu_by_set": dict(self.bleu_by_set)} if self.bleu_by_set else {}
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
        tokens: scored tokens of these batches.
        hyps: translation of each of its sentences.
        predictions: counts of each of its batches, see evaluation/calibration.py.
    """

    nats: list[float]
    tokens: int
    hyps: list[str]
    predictions: list[list[list[float]]] = field(default_factory=list)


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
