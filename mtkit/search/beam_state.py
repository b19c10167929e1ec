"""Hypotheses of a beam search: live ones, their extensions and the selection among these, the finished ones."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import insort
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from mtkit.search.hypothesis import Hypothesis


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


class FinishedPool:
    """Keeps the `n_best` finished hypotheses of each beam with the highest score; among equals those that ended first.

    Attributes:
        count: [beams] number of hypotheses that have ended.
        worst: [beams] score that a further hypothesis must exceed; -inf while there are fewer than `n_best`.
        has_finished: whether a hypothesis of any beam has ended.
        failed: beams with a hypothesis for which the model computed NaN or infinity.
        attention: [rows, S] of each step over the source, averaged over heads; none unless requested.
    """

    def __init__(self, num_beams: int, n_best: int) -> None:
        self.n_best = n_best
        self.count = torch.zeros(num_beams, dtype=torch.int64)
        self.worst = torch.full((num_beams,), float("-inf"))
        # views of the same memory: numpy reads and writes single numbers ten times as fast as torch
        self._count, self._worst = self.count.numpy(), self.worst.numpy()
        # of each beam, best first, with the row in which each token was chosen, to look up its attention
        self._best: list[list[tuple[Hypothesis, list[int]]]] = [[] for _ in range(num_beams)]
        self.has_finished = False
        self.failed: set[int] = set()
        self.attention: list[Tensor] = []

    def add(
        self, live: LiveHypotheses, rows: Tensor, *, end_token_log_prob: Tensor, score: Tensor, finished: Tensor
    ) -> None:
        """Count the hypotheses that end at this step, and keep those that are among the n best.

        Args:
            live: the hypotheses before the end of sentence.
            rows: [F] the rows of `live` that end.
            end_token_log_prob: [F] the model's log-probability of the end of sentence.
            score: [F].
            finished: [F] bool, False where the end was forced.
        """
        # a few transfers from the device for all rows, instead of a few for each
        log_probs = torch.cat([live.token_log_probs[rows], end_token_log_prob.unsqueeze(1)], dim=1)  # [F, t + 1]
        columns = (
            live.beam[rows // live.width],
            live.tokens[rows],
            live.source_rows[rows],
            log_probs.double().sum(1),
            log_probs,
            score,
            finished,
        )
        for beam, tokens, source_rows, log_prob, token_log_probs, value, ended in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            if not value < math.inf:  # NaN or +inf
                self.failed.add(beam)
                continue
            self.has_finished = True
            self._count[beam] += 1
            best = self._best[beam]
            if len(best) == self.n_best and value <= best[-1][0].score:
                continue
            hypothesis = Hypothesis(tokens, log_prob, value, token_log_probs, ended)
            insort(best, (hypothesis, source_rows), key=lambda entry: -entry[0].score)  # after equal ones
            del best[self.n_best :]
            if len(best) == self.n_best:
                self._worst[beam] = best[-1][0].score

    def best(self, beam: int) -> list[Hypothesis]:
        """The n best hypotheses of a beam, best first, with attention if it was recorded; a failure if it failed."""
        if beam in self.failed:
            return [Hypothesis.failure()]
        if not self.attention:
            return [hypothesis for hypothesis, _ in self._best[beam]]
        empty = self.attention[0][:0]  # [0, S]
        hypotheses = []
        for hypothesis, source_rows in self._best[beam]:
            steps = [self.attention[t][row] for t, row in enumerate(source_rows)]
            hypotheses.append(replace(hypothesis, attention=torch.stack(steps) if steps else empty))  # [T, S]
        return hypotheses


class ExtensionSelector(ABC):
    """Selects extensions at each step of beam search.

    Attributes:
        groups: beams of each sentence.
        per_beam: True if the candidates are the best of each whole beam, False if they are those of each hypothesis.
    """

    groups: int
    per_beam: bool

    def num_candidates(self, width: int) -> int:
        """Number of candidates needed, of each beam or hypothesis, to select `width` extensions for a beam."""
        return width

    def required_ids(self, live: LiveHypotheses) -> Tensor | None:
        """Ids [rows, E] that must be among the candidates of each hypothesis, at any probability.

        Negative ids are padding. None: no such ids.
        """
        return None

    @abstractmethod
    def choose(self, candidates: Extensions, live: LiveHypotheses, width: int) -> Tensor:
        """Indices [N, W'] of the selected candidates, best first; W' is the smaller of `width` and M."""


class TopExtensions(ExtensionSelector):
    """The most probable extensions. Among equals the extension of the better hypothesis is selected."""

    groups = 1
    per_beam = True

    def choose(self, candidates: Extensions, live: LiveHypotheses, width: int) -> Tensor:
        """See ExtensionSelector."""
        return rank(candidates.log_prob, width)


def rank(log_prob: Tensor, count: int) -> Tensor:
    """Indices [N, count] of the largest values in each row of `log_prob` [N, M]; among equals the first comes first."""
    return log_prob.sort(dim=1, descending=True, stable=True).indices[:, :count]


@dataclass(frozen=True, kw_only=True)
class DiverseBeam(ExtensionSelector):
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
    per_beam: bool = field(default=False, init=False)

    def num_candidates(self, width: int) -> int:
        """The other groups penalise at most (groups - 1) · width tokens: the best `width` are among these."""
        return width * self.groups

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
