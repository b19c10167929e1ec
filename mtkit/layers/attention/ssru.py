"""Simpler simple recurrent unit: a decoder layer whose state is one vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mtkit.layers.attention.multi_head import SelfAttentionParts
from mtkit.layers.branch import Branch
from mtkit.layers.cache.state import Rows
from mtkit.layers.projections import linear


@dataclass(frozen=True)
class SSRUState(Rows):
    """c of the last token, [rows, D], float32."""

    c: Tensor


class SSRU(Branch):
    """c_t = f_t * c_{t-1} + (1 - f_t) * W x_t with f_t = sigmoid(W_f x_t + b_f); the output is ReLU(c_t).

    Kim et al. 2019, sec. 3.2, in the place of a decoder's self-attention. https://aclanthology.org/D19-5632
    A step costs the same however long the output is, and remembers one vector. The order of the tokens is known through
    the recurrence, whatever their positions are. The recurrence is computed in float32 at least.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.forget = linear(d_model, d_model)
        self.value = linear(d_model, d_model, bias=False)

    def value_weights(self) -> list[Tensor]:
        """See Branch."""
        return [self.value.weight]

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: Rows | None = None
    ) -> tuple[Tensor, Rows]:
        """T tokens x [B, T, D] at pos [B, T], of which `real` [B, T] is there, after the `past`.

        Returns:
            [B, T, D], and the state after the last token.

        Raises:
            ValueError: another kind of layer made the past.
        """
        if past is not None and not isinstance(past, SSRUState):
            raise ValueError(f"a state of another kind of layer: {type(past).__name__}")
        dtype = torch.promote_types(x.dtype, torch.float32)
        decay = torch.sigmoid(self.forget(x).to(dtype))  # [B, T, D]
        new = (1 - decay) * self.value(x).to(dtype)  # [B, T, D]
        if real is not None:  # what is not there leaves the state as it is
            decay, new = decay.masked_fill(~real.unsqueeze(-1), 1.0), new * real.unsqueeze(-1)
        if past is not None:
            first = new[:, :1] + decay[:, :1] * past.c.unsqueeze(1)
            new = torch.cat([first, new[:, 1:]], 1)
        c = linear_recurrence(decay, new)  # [B, T, D]
        return c.relu().to(x.dtype), SSRUState(c[:, -1])


def linear_recurrence(decay: Tensor, x: Tensor) -> Tensor:
    """c_t = decay_t · c_{t-1} + x_t from c_0 = 0, for all t in log2(T) passes.

    Pairs (decay, x) compose associatively, so that each pass joins what ends 1, 2, 4, ... steps before (Hillis & Steele
    1986; Martin & Cundy 2018, https://arxiv.org/abs/1709.04057). Products of decays in [0, 1] cannot overflow.

    Args:
        decay: [B, T, D], in [0, 1].
        x: [B, T, D].

    Returns:
        [B, T, D].
    """
    length, reach = x.size(1), 1
    while reach < length:
        before_x, before_decay = x[:, :-reach], decay[:, :-reach]
        x = torch.cat([x[:, :reach], x[:, reach:] + decay[:, reach:] * before_x], 1)
        decay = torch.cat([decay[:, :reach], decay[:, reach:] * before_decay], 1)
        reach *= 2
    return x


@dataclass(frozen=True, kw_only=True)
class SSRUConfig:
    """A simpler simple recurrent unit; a decoder's (see SSRU)."""

    kind: Literal["ssru"] = "ssru"

    def build(self, parts: SelfAttentionParts) -> SSRU:
        """The layer."""
        return SSRU(parts.d_model)
