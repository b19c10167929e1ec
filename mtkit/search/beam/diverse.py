"""Diverse beam search: groups that avoid each other's pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from mtkit.search.beam.selection import rank
from mtkit.search.beam.state import Candidates, Live


@dataclass(frozen=True)
class Diverse:
    """Group after group chooses its pieces; each use of a piece by an earlier group at this step costs `strength`.

    Vijayakumar et al. 2018, algorithm 1, with Hamming diversity. https://arxiv.org/abs/1610.02424. The cost decides
    what is chosen and is not added to the log-probabilities. The end of sentence costs nothing.
    """

    groups: int
    strength: float
    of_beam: bool = False

    def count(self, width: int) -> int:
        """At most `width` pieces of each earlier group can be made worse, so that the best `width` are among these."""
        return width * self.groups

    def wanted(self, live: Live) -> Tensor | None:
        """See Selection."""
        return None

    def choose(self, candidates: Candidates, live: Live, width: int) -> Tensor:
        """See Selection."""
        beams, count = candidates.log_prob.shape
        shape = (beams // self.groups, self.groups, count)
        total, token = candidates.log_prob.view(shape), candidates.token.view(shape)  # [B, G, M]
        places: list[Tensor] = []
        used = token.new_zeros(shape[0], 0)  # [B, pieces chosen by earlier groups]
        for group in range(self.groups):
            uses = (token[:, group].unsqueeze(2) == used.unsqueeze(1)).sum(2)  # [B, M]
            place = rank(total[:, group] - self.strength * uses, width)  # [B, W']
            alive = total[:, group].gather(1, place) > float("-inf")
            chosen = token[:, group].gather(1, place).masked_fill(~alive, -1)
            used = torch.cat([used, chosen], dim=1)
            places.append(place)
        return torch.stack(places, dim=1).flatten(0, 1)  # [N, W']


@dataclass(frozen=True, kw_only=True)
class DiverseConfig:
    """Beam search in groups that avoid each other (see Diverse); beam_size is shared among them."""

    kind: Literal["diverse"] = "diverse"
    groups: Annotated[int, Field(gt=0)] = 5
    strength: Annotated[float, Field(ge=0)] = 0.5  # nats; the paper finds 0.2 to 0.8 good
