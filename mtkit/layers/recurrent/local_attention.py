"""Local attention: a window of the source around a position predicted from the decoder's state."""

from __future__ import annotations

import torch
from torch import Tensor

from mtkit.layers.projections import linear
from mtkit.layers.recurrent.attention import Annotations, RecurrentAttention, ScoreFn, WeightFn, softmax_over_visible
from mtkit.layers.recurrent.deferred_weight_grad import recurrent_linear


class LocalAttention(RecurrentAttention):
    """a_j = softmax over the window(e_j) · exp(-(j - p)² / 2σ²), p = S · sigmoid(v · tanh(W s)), σ = window / 2.

    Luong et al. 2015, eqs. 9 and 10, "local-p". https://arxiv.org/abs/1508.04025 The window holds the positions j from
    p - window to p + window. Positions count the real source tokens from 0, the end of sentence included, and S is
    their number. As in the paper the weights do not sum to one, and p gets its gradient through the distances alone.

    Args:
        score: gives the e_j.
        d_query: width of the states s.
        window: D, positions to each side.
    """

    def __init__(self, score: RecurrentAttention, d_query: int, window: int) -> None:
        super().__init__()
        self.score = score
        self.window = window
        self.query = linear(d_query, d_query, bias=False)  # W_p
        self.position = linear(d_query, 1, bias=False)  # v_p

    def project_keys(self, values: Tensor) -> Tensor:
        """The keys of `score`."""
        return self.score.project_keys(values)

    def make_score_fn(self, memory: Annotations) -> ScoreFn:
        """The scores of `score`."""
        return self.score.make_score_fn(memory)

    def make_weight_fn(self, memory: Annotations) -> WeightFn:
        """See RecurrentAttention; positions are computed in float32 at least."""
        to_query, to_position = recurrent_linear(self.query), recurrent_linear(self.position)
        real = memory.real.unsqueeze(1)  # [B, 1, S]
        positions = real.cumsum(-1) - 1  # [B, 1, S]
        lengths = real.sum(-1, keepdim=True)  # [B, 1, 1]

        def weigh(scores: Tensor, query: Tensor) -> Tensor:
            predicted = memory.group_by_sentence(to_position(torch.tanh(to_query(query))))  # [B, W, 1]
            precise = predicted.to(torch.promote_types(predicted.dtype, torch.float32))
            distance = positions - lengths * precise.sigmoid()  # [B, W, S]
            weights = softmax_over_visible(scores, real & (distance.abs() <= self.window))
            return weights * torch.exp(-2 * (distance / self.window) ** 2).to(weights.dtype)

        return weigh
