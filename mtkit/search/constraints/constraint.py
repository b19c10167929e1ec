"""Interface of constraints: functions that lower or forbid next tokens, applied one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

FORCED_LOG_PROB = -100.0  # log-probability of a token that one constraint requires and another one forbids


@dataclass(frozen=True)
class Prefixes:
    """The hypotheses that are extended."""

    tokens: Tensor  # [rows, t] ids so far, without bos
    sentence: Tensor  # [rows] index of the sentence in the request
    language_model: Tensor | None = None  # [rows, V] log-probabilities of the next token, see shallow_fusion.py


class Constraint(Protocol):
    """Changes the log-probabilities of the next token; -inf forbids it."""

    def __call__(self, prefixes: Prefixes, log_prob: Tensor) -> Tensor:
        """New log-probabilities [rows, V], or `log_prob` [rows, V] itself, which must not be written to."""
