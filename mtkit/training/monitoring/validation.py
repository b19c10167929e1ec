"""Judging a model on all processes at once: each finds its share, and what they found is put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, Protocol, TypeVar

from mtkit.models.interface import TranslationModel
from mtkit.training.distributed.process_group import Ranks

Metric = Literal["nll", "bleu"]


@dataclass(frozen=True)
class Validation:
    """What a validation found.

    Attributes:
        nll: nats per target token, without label smoothing.
        bleu: of the decoded part of the valid set, 0 to 100; None if nothing was decoded.
        sample: source, hypothesis and reference of one sentence, for the display; None if nothing was decoded.
    """

    nll: float
    bleu: float | None = None
    sample: tuple[str, str, str] | None = None

    def value(self, metric: Metric) -> float:
        """The metric as a number of which lower is better.

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
class Share:
    """What one process found.

    Attributes:
        nats: the loss of each of its batches.
        tokens: scored in them.
        hyps: the translation of each of its sentences.
    """

    nats: list[float]
    tokens: int
    hyps: list[str]


class Validate(Protocol):
    """Judges a model; it leaves the weights alone."""

    def share(self, model: TranslationModel, update: int, ranks: Ranks) -> Share:
        """What this process has to find; it asks nothing of the others and may be cut off by a signal."""
        ...

    def join(self, shares: Sequence[Share]) -> Validation:
        """What was found, given the shares of all ranks in their order."""
        ...


def interleaved(dealt: Sequence[Sequence[T]]) -> list[T]:
    """What was dealt out in turn, in its first order."""
    nothing = object()
    rounds = zip_longest(*dealt, fillvalue=nothing)
    return [each for row in rounds for each in row if each is not nothing]  # type: ignore[misc]
