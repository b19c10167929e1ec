"""Constraints against repetition: no repeated n-grams, repetition penalty."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.search.constraints.constraint import Prefixes


@dataclass(frozen=True)
class NoRepeatNgram:
    """Forbids a token that would complete an n-gram which the hypothesis contains already (Paulus et al. 2018)."""

    size: int

    def __call__(self, prefixes: Prefixes, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        tokens, length = prefixes.tokens, prefixes.tokens.size(1)
        if length < self.size:
            return log_prob
        ngrams = tokens.unfold(1, self.size, 1)  # [rows, t - size + 1, size]
        recent = tokens[:, length - self.size + 1 :].unsqueeze(1)  # [rows, 1, size - 1]
        matches = (ngrams[:, :, :-1] == recent).all(2)  # [rows, t - size + 1]
        row, position = matches.nonzero(as_tuple=True)
        result = log_prob.clone()
        result[row, ngrams[row, position, -1]] = float("-inf")
        return result


@dataclass(frozen=True)
class RepetitionPenalty:
    """Multiplies the log-probability of every token that the hypothesis contains by `theta` > 1.

    Keskar et al. 2019 (CTRL), section 4.1, divide the logits instead, whose signs differ. With log-probabilities, which
    are never positive, the penalty always lowers the value. https://arxiv.org/abs/1909.05858
    """

    theta: float

    def __call__(self, prefixes: Prefixes, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        if prefixes.tokens.size(1) == 0:
            return log_prob
        used = torch.zeros_like(log_prob, dtype=torch.bool).scatter_(1, prefixes.tokens, True)
        return torch.where(used, log_prob * self.theta, log_prob)
