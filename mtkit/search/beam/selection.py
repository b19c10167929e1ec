"""Which extensions of a beam's hypotheses live on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from mtkit.search.beam.state import Candidates, Live


class Selection(Protocol):
    """Chooses among the candidates of each step."""

    @property
    def groups(self) -> int:
        """Beams for each sentence."""

    @property
    def of_beam(self) -> bool:
        """Whether the candidates are the best of all hypotheses of a beam together, or those of each."""

    def count(self, width: int) -> int:
        """How many of these best it wants to see when `width` are to be chosen for a beam."""

    def wanted(self, live: Live) -> Tensor | None:
        """Ids [rows, E] that must be among those of each, however improbable; less than 0: none. None: none at all."""

    def choose(self, candidates: Candidates, live: Live, width: int) -> Tensor:
        """Places [N, W'] among the M candidates, best first; W' = `width`, or M if that is less."""


@dataclass(frozen=True)
class Best:
    """The most probable ones. Among equals the extension of the better hypothesis wins."""

    groups: int = 1
    of_beam: bool = True

    def count(self, width: int) -> int:
        """See Selection."""
        return width

    def wanted(self, live: Live) -> Tensor | None:
        """See Selection."""
        return None

    def choose(self, candidates: Candidates, live: Live, width: int) -> Tensor:
        """See Selection."""
        return rank(candidates.log_prob, width)


def rank(log_prob: Tensor, count: int) -> Tensor:
    """Places [N, count] of the largest of each row of `log_prob` [N, M], the first of equals first."""
    return log_prob.sort(dim=1, descending=True, stable=True).indices[:, :count]
