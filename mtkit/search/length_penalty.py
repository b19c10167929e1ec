"""How a log-probability becomes a score that does not favour short translations, and the best score still in reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor


class LengthPenalty(Protocol):
    """Ranks ended hypotheses. Lengths n are pieces and the end of sentence."""

    def score(self, log_prob: Tensor, length: Tensor) -> Tensor:
        """Scores of ended hypotheses, `log_prob` and `length` of one shape."""

    def bound(self, log_prob: Tensor, shortest: Tensor, longest: Tensor) -> Tensor:
        """No hypothesis that now has `log_prob` <= 0 and ends at a length in shortest ... longest scores more."""


@dataclass(frozen=True)
class Average:
    """log_prob / n^alpha; alpha 0 is the plain log-probability."""

    alpha: float

    def score(self, log_prob: Tensor, length: Tensor) -> Tensor:
        """See the class."""
        return log_prob / length.float() ** self.alpha

    def bound(self, log_prob: Tensor, shortest: Tensor, longest: Tensor) -> Tensor:
        """The log-probability can only fall and the divisor is largest at the longest."""
        return self.score(log_prob, longest)


@dataclass(frozen=True)
class GNMT:
    """log_prob / ((5 + n) / 6)^alpha. Wu et al. 2016, equation 14. https://arxiv.org/abs/1609.08144."""

    alpha: float

    def score(self, log_prob: Tensor, length: Tensor) -> Tensor:
        """See the class."""
        return log_prob / ((5 + length.float()) / 6) ** self.alpha

    def bound(self, log_prob: Tensor, shortest: Tensor, longest: Tensor) -> Tensor:
        """The log-probability can only fall and the divisor is largest at the longest."""
        return self.score(log_prob, longest)


@dataclass(frozen=True)
class WordReward:
    """log_prob + reward · n. He et al. 2016, a bonus for each word. A negative reward favours short ones."""

    reward: float

    def score(self, log_prob: Tensor, length: Tensor) -> Tensor:
        """See the class."""
        return log_prob + self.reward * length.float()

    def bound(self, log_prob: Tensor, shortest: Tensor, longest: Tensor) -> Tensor:
        """Every piece to come is certain at best and earns its reward."""
        return torch.maximum(self.score(log_prob, shortest), self.score(log_prob, longest))


@dataclass(frozen=True, kw_only=True)
class AverageConfig:
    """Score = log_prob / n^alpha, n counting the end of sentence (see Average)."""

    kind: Literal["average"] = "average"
    alpha: Annotated[float, Field(ge=0)] = 1.0  # 0: none; 1: mean log-probability of a piece

    def build(self) -> LengthPenalty:
        """The penalty."""
        return Average(self.alpha)


@dataclass(frozen=True, kw_only=True)
class GNMTConfig:
    """Score = log_prob / ((5 + n) / 6)^alpha (see GNMT)."""

    kind: Literal["gnmt"] = "gnmt"
    alpha: Annotated[float, Field(ge=0)] = 0.6  # the Transformer paper's value

    def build(self) -> LengthPenalty:
        """The penalty."""
        return GNMT(self.alpha)


@dataclass(frozen=True, kw_only=True)
class WordRewardConfig:
    """Score = log_prob + reward · n (see WordReward)."""

    kind: Literal["word_reward"] = "word_reward"
    reward: float = 0.5  # nats a piece

    def build(self) -> LengthPenalty:
        """The penalty."""
        return WordReward(self.reward)


LengthPenaltyConfig = AverageConfig | GNMTConfig | WordRewardConfig
