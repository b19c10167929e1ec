"""Stopping rules of beam search, of which any ends the search of a beam; `SearchConfig.stopping_rules` chooses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from mtkit.search.length_penalty import LengthPenalty


class BeamProgress(NamedTuple):
    """N beams of `width` hypotheses whose best live ones have t + 1 tokens."""

    best: Tensor  # [N] log-probability of the best live hypothesis
    num_ended: Tensor  # [N] hypotheses that have ended
    worst: Tensor  # [N] score that a further hypothesis must exceed; -inf while fewer than n_best have ended
    max_length: Tensor  # [N] maximum number of tokens
    length: int  # t
    width: int
    penalty: LengthPenalty


class StoppingRule(Protocol):
    """Decides which beams end."""

    def __call__(self, progress: BeamProgress) -> Tensor:
        """[N] bool, beams whose search ends."""


@dataclass(frozen=True)
class EnoughEnded:
    """`patience` · width hypotheses have ended (Kasai et al. 2022, https://arxiv.org/abs/2204.05424).

    Most toolkits use 1; infinity is exact.
    """

    patience: float

    def __call__(self, progress: BeamProgress) -> Tensor:
        """See StoppingRule."""
        return progress.num_ended >= self.patience * progress.width


@dataclass(frozen=True)
class BoundReached:
    """No live hypothesis can enter the n best: the bound of its score, with the end, is no better than the worst."""

    def __call__(self, progress: BeamProgress) -> Tensor:
        """See StoppingRule."""
        min_length = torch.full_like(progress.max_length, progress.length + 2)
        return progress.penalty.bound(progress.best, min_length, progress.max_length + 1) <= progress.worst


@dataclass(frozen=True)
class PresentScoreReached:
    """The best live hypothesis, scored as if it ended at its present length, is no better than the worst.

    This is the rule of the package transformers. It is not exact: a longer hypothesis can have a better score.
    """

    def __call__(self, progress: BeamProgress) -> Tensor:
        """See StoppingRule."""
        length = torch.full_like(progress.max_length, progress.length + 1)
        attainable: Tensor = progress.penalty.score(progress.best, length)
        return attainable <= progress.worst
