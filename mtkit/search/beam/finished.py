"""The ended hypotheses of each beam: the best few are kept, all are counted."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

import torch
from torch import Tensor

from mtkit.search.beam.state import Live
from mtkit.search.interface import Hypothesis


@dataclass(order=True)
class _Entry:
    rank: tuple[float, int]  # minus the score, then the order in which they ended
    hypothesis: Hypothesis = field(compare=False)
    origin: list[int] = field(compare=False)


class Ended:
    """Hypotheses that end at one step: `rows` [M] of `live`, with the end's own and the summed figures [M]."""

    def __init__(self, live: Live, rows: Tensor, end_log_prob: Tensor, score: Tensor, finished: Tensor) -> None:
        self.beams = live.beam[rows // live.width].tolist()
        self.tokens = live.tokens[rows].tolist()
        self.origin = live.origin[rows].tolist()
        log_probs = torch.cat([live.piece_log_probs[rows], end_log_prob.unsqueeze(1)], dim=1)  # [M, t + 1]
        self.log_prob = log_probs.double().sum(1).tolist()
        self.piece_log_probs = log_probs.tolist()
        self.score = score.tolist()
        self.finished = finished.tolist()


class Pool:
    """Keeps the `n_best` best ended hypotheses of each beam; among equals those that ended first."""

    def __init__(self, num_beams: int, n_best: int) -> None:
        self.n_best = n_best
        self.count = torch.zeros(num_beams, dtype=torch.int64)  # [beams] ended so far
        self.worst = torch.full((num_beams,), float("-inf"))  # [beams] score to be beaten; -inf while there is room
        # the same memory as arrays, whose single numbers are read and written ten times as fast
        self._count, self._worst = self.count.numpy(), self.worst.numpy()
        self._kept: list[list[_Entry]] = [[] for _ in range(num_beams)]
        self._attention: list[Tensor] = []  # of each step [rows, S]

    def attend(self, attention: Tensor | None) -> None:
        """Remember the attention [rows, H, S] of a step, as the mean of its heads."""
        if attention is not None:
            self._attention.append(attention.float().mean(1))

    def add(self, ended: Ended) -> None:
        """Count these and keep those that are good enough."""
        for i, beam in enumerate(ended.beams):
            self._count[beam] += 1
            kept = self._kept[beam]
            if len(kept) == self.n_best and ended.score[i] <= kept[-1].hypothesis.score:
                continue
            hypothesis = Hypothesis(
                tokens=ended.tokens[i],
                log_prob=ended.log_prob[i],
                score=ended.score[i],
                piece_log_probs=ended.piece_log_probs[i],
                finished=ended.finished[i],
            )
            insort(kept, _Entry((-hypothesis.score, int(self._count[beam])), hypothesis, ended.origin[i]))
            del kept[self.n_best :]
            if len(kept) == self.n_best:
                self._worst[beam] = kept[-1].hypothesis.score

    def best(self, beam: int) -> list[Hypothesis]:
        """The kept hypotheses of a beam, best first, with attention if it was remembered."""
        return [self._with_attention(entry) for entry in self._kept[beam]]

    def _with_attention(self, entry: _Entry) -> Hypothesis:
        if not self._attention:
            return entry.hypothesis
        steps = [self._attention[t][row] for t, row in enumerate(entry.origin)]
        empty = self._attention[0].new_zeros(0, self._attention[0].size(1))
        attention = torch.stack(steps) if steps else empty  # [T, S]
        h = entry.hypothesis
        return Hypothesis(h.tokens, h.log_prob, h.score, h.piece_log_probs, h.finished, attention)
