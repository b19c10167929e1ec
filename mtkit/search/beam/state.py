"""Live hypotheses of a beam search, and the tokens by which they can be extended, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Extensions(NamedTuple):
    """M one-token extensions of the W hypotheses of each of N beams, and the end of sentence of each hypothesis."""

    log_prob: Tensor  # [N, M] of hypothesis and token together, after constraints
    token: Tensor  # [N, M] ids
    token_log_prob: Tensor  # [N, M] the model's log-probability of the token alone
    parent: Tensor  # [N, M] index in its beam of the hypothesis that is extended
    end_log_prob: Tensor  # [N, W] of hypothesis and end of sentence together, after constraints
    end_token_log_prob: Tensor  # [N, W] the model's log-probability of the end alone

    def gather(self, index: Tensor) -> Extensions:
        """The extensions at `index` [N, W'] of each beam; the ends stay as they are."""
        return self._replace(
            log_prob=self.log_prob.gather(1, index),
            token=self.token.gather(1, index),
            token_log_prob=self.token_log_prob.gather(1, index),
            parent=self.parent.gather(1, index),
        )


@dataclass(frozen=True)
class LiveHypotheses:
    """N beams of W hypotheses each; the rows n·W ... n·W + W - 1 belong to beam n.

    A sentence has one beam, or one for each diverse group. A hypothesis with `log_prob` -inf is dead: it occupies a row
    until its sentence leaves the batch, and none of its extensions is ever chosen.
    """

    beam: Tensor  # [N] index of the beam in the request
    log_prob: Tensor  # [N, W] ranking value: sum of log-probabilities after constraints
    tokens: Tensor  # [N·W, t] ids
    token_log_probs: Tensor  # [N·W, t] the model's log-probabilities
    source_rows: Tensor  # [N·W, t] the row in which each token was chosen, to look up its attention

    @classmethod
    def first(cls, num_beams: int, device: torch.device) -> LiveHypotheses:
        """One empty hypothesis in each beam."""
        return cls(
            beam=torch.arange(num_beams, device=device),
            log_prob=torch.zeros(num_beams, 1, device=device),
            tokens=torch.zeros(num_beams, 0, dtype=torch.int64, device=device),
            token_log_probs=torch.zeros(num_beams, 0, device=device),
            source_rows=torch.zeros(num_beams, 0, dtype=torch.int64, device=device),
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
        """Rows [N·W'] of the hypotheses with index `parent` [N, W'] in their beam."""
        first = torch.arange(self.num_beams, device=parent.device).unsqueeze(1) * self.width
        return (first + parent).flatten()

    def extend(self, rows: Tensor, chosen: Extensions) -> LiveHypotheses:
        """The hypotheses of `rows` [N·W'], each with the token of the chosen extension [N, W'] appended."""

        def append(history: Tensor, new: Tensor) -> Tensor:
            return torch.cat([history.index_select(0, rows), new.reshape(-1, 1)], dim=1)

        return LiveHypotheses(
            beam=self.beam,
            log_prob=chosen.log_prob,
            tokens=append(self.tokens, chosen.token),
            token_log_probs=append(self.token_log_probs, chosen.token_log_prob),
            source_rows=append(self.source_rows, rows),
        )

    def keep_beams(self, beams: Tensor) -> LiveHypotheses:
        """The beams [N'] alone, in this order."""
        rows = (beams.unsqueeze(1) * self.width + torch.arange(self.width, device=beams.device)).flatten()  # [N'·W]
        history = (each[rows] for each in (self.tokens, self.token_log_probs, self.source_rows))
        return LiveHypotheses(self.beam[beams], self.log_prob[beams], *history)
