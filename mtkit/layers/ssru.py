"""Simpler simple recurrent unit: a decoder layer whose state is one vector."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.layers.branch import Branch
from mtkit.layers.linear import linear
from mtkit.layers.rows import Rows
from mtkit.layers.scan import linear_recurrence


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
