"""Which extensions of a beam's hypotheses live on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from mtkit.search.live import Choice, Live


class Candidates(NamedTuple):
    """M extensions of the W hypotheses of each of N beams, the end of sentence apart."""

    log_prob: Tensor  # [N, M] of hypothesis and piece together, after constraints
    token: Tensor  # [N, M] ids
    piece_log_prob: Tensor  # [N, M] the model's own, of the piece alone
    parent: Tensor  # [N, M] which hypothesis of its beam it extends
    end_log_prob: Tensor  # [N, W] of hypothesis and end of sentence, after constraints
    end_piece_log_prob: Tensor  # [N, W] the model's own, of the end alone

    def take(self, place: Tensor) -> tuple[Choice, Tensor]:
        """The candidates at `place` [N, W'], and which hypothesis [N, W'] each extends."""
        fields = (self.log_prob, self.token, self.piece_log_prob)
        return Choice(*(f.gather(1, place) for f in fields)), self.parent.gather(1, place)


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
