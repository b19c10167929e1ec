"""What may follow a prefix: functions that lower or forbid next pieces, applied one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

COST = -100.0  # log-probability of a piece that must come and that another constraint forbids


@dataclass(frozen=True)
class Prefixes:
    """The hypotheses that are being extended."""

    tokens: Tensor  # [rows, t] ids so far, without bos
    sentence: Tensor  # [rows] the number of each one's sentence in the request


class Constraint(Protocol):
    """Changes the log-probabilities of what may come next; -inf forbids."""

    def __call__(self, prefixes: Prefixes, log_prob: Tensor) -> Tensor:
        """A new tensor of the shape of `log_prob` [rows, V]; the one given is not written to."""


def apply(constraints: Sequence[Constraint], prefixes: Prefixes, log_prob: Tensor) -> Tensor:
    """All constraints, in order."""
    for constraint in constraints:
        log_prob = constraint(prefixes, log_prob)
    return log_prob
