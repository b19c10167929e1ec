"""Average attention: a replacement of decoder self-attention that attends evenly to all preceding tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mtkit.layers.attention.kernel import TokenMixer, check_state
from mtkit.layers.cache.state import BatchedState
from mtkit.layers.feed_forward.dense import FeedForward
from mtkit.layers.projections import linear


@dataclass(frozen=True)
class AverageState(BatchedState):
    """Sum of the tokens so far [rows, D], float32, and their number [rows]."""

    total: Tensor
    count: Tensor


class AverageAttention(TokenMixer):
    """y_t = i_t * x_t + f_t * g_t with g_t = FFN(mean of x_1 .. x_t) and gates [i; f] = sigmoid(W [x_t; g_t]).

    Zhang et al. 2018, eq. 1 to 3. https://arxiv.org/abs/1805.00631
    The state and the cost of a step do not grow with the output. The average does not depend on the order of tokens;
    only position embeddings express it. Sums are computed in float32 at least.

    Args:
        d_model: D.
        d_ff: width of the feed-forward layer on the average, or None to leave it out.
    """

    def __init__(self, d_model: int, d_ff: int | None) -> None:
        super().__init__()
        self.feed_forward = (
            nn.Identity() if d_ff is None else FeedForward(d_model, d_ff, activation="relu", dropout=0.0)
        )
        self.gates = linear(2 * d_model, 2 * d_model)

    def value_path_weights(self) -> list[Tensor]:
        """None of its own; the feed-forward layer lists its weights itself."""
        return []

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState]:
        """See TokenMixer.

        Raises:
            ValueError: the past is the state of another kind of layer.
        """
        before = check_state(past, AverageState)
        real = torch.ones_like(pos, dtype=torch.bool) if real is None else real  # [B, T]
        tokens = x.to(torch.promote_types(x.dtype, torch.float32)) * real.unsqueeze(-1)
        total, count = tokens.cumsum(1), real.cumsum(1)  # [B, T, D], [B, T]
        if before is not None:
            total, count = total + before.total.unsqueeze(1), count + before.count.unsqueeze(1)
        g = self.feed_forward((total / count.clamp(min=1).unsqueeze(-1)).to(x.dtype))  # [B, T, D]
        input_gate, forget_gate = self.gates(torch.cat([x, g.to(x.dtype)], -1)).sigmoid().chunk(2, dim=-1)
        return input_gate * x + forget_gate * g, AverageState(total[:, -1], count[:, -1])
