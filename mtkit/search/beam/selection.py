"""Selection of the extensions that stay in the beam: the most probable ones, or those of diverse groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from mtkit.search.beam.state import Extensions, LiveHypotheses


class ExtensionSelector(Protocol):
    """Selects extensions at each step of beam search."""

    @property
    def groups(self) -> int:
        """Beams of each sentence."""

    @property
    def per_beam(self) -> bool:
        """True if the candidates are the best of each whole beam, False if they are those of each hypothesis."""

    def num_candidates(self, width: int) -> int:
        """Number of candidates needed, of each beam or hypothesis, to select `width` extensions for a beam."""

    def required_ids(self, live: LiveHypotheses) -> Tensor | None:
        """Ids [rows, E] that must be among the candidates of each hypothesis, at any probability.

        Negative ids are padding. None: no such ids.
        """

    def choose(self, candidates: Extensions, live: LiveHypotheses, width: int) -> Tensor:
        """Indices [N, W'] of the selected candidates, best first; W' is the smaller of `width` and M."""


@dataclass(frozen=True)
class TopExtensions:
    """The most probable extensions. Among equals the extension of the better hypothesis is selected."""

    groups: int = 1
    per_beam: bool = True

    def num_candidates(self, width: int) -> int:
        """See ExtensionSelector."""
        return width

    def required_ids(self, live: LiveHypotheses) -> Tensor | None:
        """See ExtensionSelector."""
        return None

    def choose(self, candidates: Extensions, live: LiveHypotheses, width: int) -> Tensor:
        """See ExtensionSelector."""
        return rank(candidates.log_prob, width)


def rank(log_prob: Tensor, count: int) -> Tensor:
    """Indices [N, count] of the largest values in each row of `log_prob` [N, M]; among equals the first comes first."""
    return log_prob.sort(dim=1, descending=True, stable=True).indices[:, :count]


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
