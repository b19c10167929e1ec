"""Translations that must begin with given pieces."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mtkit.search.constraints.constraint import COST, Prefixes


class ForcedPrefix:
    """Every hypothesis of sentence b begins with `prefixes[b]`, also against what came before, such as NoRepeatNgram.

    Log-probabilities stay the model's own.
    """

    def __init__(self, prefixes: Sequence[Sequence[int]]) -> None:
        longest = max((len(prefix) for prefix in prefixes), default=0)
        self.pieces = torch.full((len(prefixes), longest), -1)  # [B, longest], -1: free
        for row, prefix in enumerate(prefixes):
            self.pieces[row, : len(prefix)] = torch.tensor(prefix, dtype=torch.int64)

    def __call__(self, prefixes: Prefixes, log_prob: Tensor) -> Tensor:
        """See Constraint."""
        length = prefixes.tokens.size(1)
        if length >= self.pieces.size(1):
            return log_prob
        piece = self.pieces.to(log_prob.device)[prefixes.sentence, length]  # [rows]
        only = torch.full_like(log_prob, float("-inf"))
        at = piece.clamp(min=0).unsqueeze(1)  # [rows, 1]
        only.scatter_(1, at, log_prob.gather(1, at).clamp(min=COST))
        return torch.where((piece >= 0).unsqueeze(1), only, log_prob)
