"""Diverse beam search: groups of hypotheses that penalise each other's tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mtkit.search.beam.selection import rank
from mtkit.search.beam.state import Extensions, LiveHypotheses


@dataclass(frozen=True, kw_only=True)
class DiverseBeam:
    """Beam search in groups of beam_size / groups hypotheses, which select their tokens one group after another.

    Each use of a token by an earlier group at the same step costs `diversity_strength` (lambda in the paper).
    Vijayakumar et al. 2018, algorithm 1, with Hamming diversity. https://arxiv.org/abs/1610.02424. The cost affects
    the selection only, not the log-probabilities. The end of sentence has no cost.

    Attributes:
        groups: beams of each sentence.
        diversity_strength: lambda, nats.
    """

    groups: int
    diversity_strength: float
    per_beam: ClassVar[bool] = False

    def num_candidates(self, width: int) -> int:
        """The other groups penalise at most (groups - 1) · width tokens: the best `width` are among these."""
        return width * self.groups

    def required_ids(self, live: LiveHypotheses) -> Tensor | None:
        """See ExtensionSelector."""
        return None

    def choose(self, candidates: Extensions, live: LiveHypotheses, width: int) -> Tensor:
        """See ExtensionSelector."""
        beams, count = candidates.log_prob.shape
        shape = (beams // self.groups, self.groups, count)
        total, token = candidates.log_prob.view(shape), candidates.token.view(shape)  # [B, groups, M]
        chosen: list[Tensor] = []
        used = token.new_zeros(shape[0], 0)  # [B, tokens selected by earlier groups]
        for group in range(self.groups):
            uses = (token[:, group].unsqueeze(2) == used.unsqueeze(1)).sum(2)  # [B, M]
            index = rank(total[:, group] - self.diversity_strength * uses, width)  # [B, W']
            # what dead hypotheses select must cost the later groups nothing: no token has id -1
            is_live = total[:, group].gather(1, index) > float("-inf")
            used = torch.cat([used, token[:, group].gather(1, index).masked_fill(~is_live, -1)], dim=1)
            chosen.append(index)
        return torch.stack(chosen, dim=1).flatten(0, 1)  # [N, W']
