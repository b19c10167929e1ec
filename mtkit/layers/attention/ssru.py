"""Simpler simple recurrent unit (SSRU): a replacement of decoder self-attention whose state is one vector."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.layers.attention.kernel import TokenMixer, check_state
from mtkit.layers.cache.state import BatchedState
from mtkit.layers.projections import linear


@dataclass(frozen=True)
class SSRUState(BatchedState):
    """c of the last token, [rows, D], float32."""

    c: Tensor


class SSRU(TokenMixer):
    """c_t = f_t * c_{t-1} + (1 - f_t) * W x_t with f_t = sigmoid(W_f x_t + b_f); the output is ReLU(c_t).

    Kim et al. 2019, sec. 3.2. https://aclanthology.org/D19-5632
    The state and the cost of a step do not grow with the output. The recurrence makes the order of tokens known without
    positions. It is computed in float32 at least.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.forget = linear(d_model, d_model)
        self.value = linear(d_model, d_model, bias=False)

    def value_path_weights(self) -> list[Tensor]:
        """See Sublayer."""
        return [self.value.weight]

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState]:
        """See TokenMixer.

        Raises:
            ValueError: the past is the state of another kind of layer.
        """
        before = check_state(past, SSRUState)
        dtype = torch.promote_types(x.dtype, torch.float32)
        decay = torch.sigmoid(self.forget(x).to(dtype))  # [B, T, D]
        new = (1 - decay) * self.value(x).to(dtype)  # [B, T, D]
        if real is not None:  # padding leaves the state unchanged
            decay, new = decay.masked_fill(~real.unsqueeze(-1), 1.0), new * real.unsqueeze(-1)
        if before is not None:
            first = new[:, :1] + decay[:, :1] * before.c.unsqueeze(1)
            new = torch.cat([first, new[:, 1:]], 1)
        c = linear_recurrence(decay, new)  # [B, T, D]
        return c.relu().to(x.dtype), SSRUState(c[:, -1])


def linear_recurrence(decay: Tensor, x: Tensor) -> Tensor:
    """Parallel scan: c_t = decay_t · c_{t-1} + x_t from c_0 = 0, for all t in log2(T) passes.

    Pairs (decay, x) compose associatively, so that each pass joins the results of 1, 2, 4, ... preceding steps (Hillis
    & Steele 1986; Martin & Cundy 2018, https://arxiv.org/abs/1709.04057). Products of decays in [0, 1] cannot overflow.

    Args:
        decay: [B, T, D], in [0, 1].
        x: [B, T, D].

    Returns:
        [B, T, D].
    """
    length, offset = x.size(1), 1
    while offset < length:
        before_x, before_decay = x[:, :-offset], decay[:, :-offset]
        x = torch.cat([x[:, :offset], x[:, offset:] + decay[:, offset:] * before_x], 1)
        decay = torch.cat([decay[:, :offset], decay[:, offset:] * before_decay], 1)
        offset *= 2
    return x
