"""The hypotheses of a batch that are still being extended, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mtkit.search.compaction import members


class Choice(NamedTuple):
    """The extensions that were chosen, W' for each of N beams."""

    log_prob: Tensor  # [N, W'] of hypothesis and token, as ranked
    token: Tensor  # [N, W'] ids
    piece_log_prob: Tensor  # [N, W'] the model's own, of the token


@dataclass(frozen=True)
class Live:
    """N beams of W hypotheses each; the rows n·W ... n·W + W - 1 belong to beam n.

    A sentence has one beam, or several if they are to differ (see diverse.py). A hypothesis with `log_prob` -inf is
    dead: it takes a row until its sentence leaves, and gives nothing.
    """

    beam: Tensor  # [N] number of the beam in the request
    log_prob: Tensor  # [N, W] what is ranked: log-probabilities after constraints
    tokens: Tensor  # [N·W, t] ids
    piece_log_probs: Tensor  # [N·W, t] the model's own
    origin: Tensor  # [N·W, t] in which row each token was chosen, for looking up attention

    @classmethod
    def first(cls, num_beams: int, device: torch.device) -> Live:
        """One empty hypothesis a beam."""
        return cls(
            beam=torch.arange(num_beams, device=device),
            log_prob=torch.zeros(num_beams, 1, device=device),
            tokens=torch.zeros(num_beams, 0, dtype=torch.int64, device=device),
            piece_log_probs=torch.zeros(num_beams, 0, device=device),
            origin=torch.zeros(num_beams, 0, dtype=torch.int64, device=device),
        )

    @property
    def num_beams(self) -> int:
        """N."""
        return self.log_prob.size(0)

    @property
    def width(self) -> int:
        """W."""
        return self.log_prob.size(1)

    @property
    def length(self) -> int:
        """t, tokens so far."""
        return self.tokens.size(1)

    def rows_of(self, parent: Tensor) -> Tensor:
        """Row numbers [N·W'] of the hypotheses `parent` [N, W'] (0 ... W - 1 in their beam)."""
        first = torch.arange(self.num_beams, device=parent.device).unsqueeze(1) * self.width
        return (first + parent).flatten()

    def extend(self, rows: Tensor, choice: Choice) -> Live:
        """The hypotheses of the rows [N·W'], each with one token more."""

        def grown(history: Tensor, new: Tensor) -> Tensor:
            return torch.cat([history.index_select(0, rows), new.reshape(-1, 1)], dim=1)

        return Live(
            beam=self.beam,
            log_prob=choice.log_prob,
            tokens=grown(self.tokens, choice.token),
            piece_log_probs=grown(self.piece_log_probs, choice.piece_log_prob),
            origin=grown(self.origin, rows),
        )

    def keep(self, beams: Tensor) -> Live:
        """The beams [M] alone."""
        rows = members(beams, self.width)  # [M·W]
        history = (each[rows] for each in (self.tokens, self.piece_log_probs, self.origin))
        return Live(self.beam[beams], self.log_prob[beams], *history)


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
