"""Validation on all processes: each computes a shard of the validation set, and the results are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, Protocol, TypeVar

from mtkit.models.interface import TranslationModel
from mtkit.training.distributed.process_group import ProcessGroup

Metric = Literal["nll", "bleu"]


@dataclass(frozen=True)
class Validation:
    """Result of a validation.

    Attributes:
        nll: nats per target token, without label smoothing.
        bleu: of the decoded subset of the validation set, 0 to 100; None if nothing was decoded.
        sample: source, hypothesis and reference of one sentence, for the display; None if nothing was decoded.
    """

    nll: float
    bleu: float | None = None
    sample: tuple[str, str, str] | None = None

    def value(self, metric: Metric) -> float:
        """Return the metric with the sign that makes lower values better.

        Raises:
            ValueError: the metric is bleu and nothing was decoded.
        """
        if metric == "nll":
            return self.nll
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
    """

    nats: list[float]
    tokens: int
    hyps: list[str]


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
