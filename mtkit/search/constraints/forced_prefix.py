"""Prefix-constrained decoding: translations that begin with given tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mtkit.search.constraints.constraint import FORCED_LOG_PROB, Prefixes

ANY = -1  # a position without a forced token


class ForcedPrefix:
    """Every hypothesis of sentence b begins with `prefixes[b]`, even if an earlier constraint forbids that.

    The log-probabilities of the forced tokens stay the model's.
    """

    def __init__(self, prefixes: Sequence[Sequence[int]]) -> None:
        max_length = max((len(prefix) for prefix in prefixes), default=0)
        self.ids = torch.full((len(prefixes), max_length), ANY)  # [B, max_length]
        for row, prefix in enumerate(prefixes):
            self.ids[row, : len(prefix)] = torch.tensor(prefix, dtype=torch.int64)

    def __call__(self, prefixes: Prefixes, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        length = prefixes.tokens.size(1)
        if length >= self.ids.size(1):
            return log_prob
        token = self.ids.to(log_prob.device)[prefixes.sentence, length]  # [rows]
        forced = torch.full_like(log_prob, float("-inf"))
        column = token.clamp(min=0).unsqueeze(1)  # [rows, 1]
        forced.scatter_(1, column, log_prob.gather(1, column).clamp(min=FORCED_LOG_PROB))
        return torch.where((token != ANY).unsqueeze(1), forced, log_prob)
