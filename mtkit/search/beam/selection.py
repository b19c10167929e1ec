"""Selection of the extensions that stay in the beam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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
