"""A translation as ids, with what the model thought of it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One ended translation of one sentence.

    Attributes:
        tokens: ids without `bos` and `eos`.
        log_prob: the model's own log-probability of the tokens and the end of sentence, nats.
        score: what it was ranked by (after length penalty, coverage and constraints).
        piece_log_probs: of each token and, last, of the end of sentence; they sum to `log_prob`.
        finished: False if a limit or a constraint forced the end.
        attention: [T, S] weights over the source for each token, mean of heads, if they were asked for.
    """

    tokens: list[int]
    log_prob: float
    score: float
    piece_log_probs: list[float]
    finished: bool = True
    attention: Tensor | None = None
