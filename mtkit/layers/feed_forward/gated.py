"""Feed-forward layers with a gate: GLU and its variants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from mtkit.layers.branch import Branch
from mtkit.layers.dropout import Dropout
from mtkit.layers.feed_forward.dense import ACTIVATIONS, Activation
from mtkit.layers.projections import linear


class GatedFeedForward(Branch):
    """W2 (act(W x) * V x), at every position alone; W and V are one product.

    Shazeer 2020, eq. 5 and 6. https://arxiv.org/abs/2002.05202 ReGLU, GEGLU and SwiGLU by activation.
    """

    def __init__(self, d_model: int, d_ff: int, *, activation: Activation, bias: bool, dropout: float) -> None:
        super().__init__()
        self.gate_value = linear(d_model, 2 * d_ff, bias=bias)
        self.outer = linear(d_ff, d_model, bias=bias)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def value_weights(self) -> list[Tensor]:
        """See Branch; the gate is one of them, since its size is that of what comes out."""
        return [*self.gate_value.weight.chunk(2), self.outer.weight]

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """[..., D] -> [..., D]; what is real [B, T] makes no difference here."""
        gate, value = self.gate_value(x).chunk(2, dim=-1)  # [..., F] each
        return self.outer(self.dropout(self.activation(gate) * value))  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class GatedConfig:
    """One feed-forward layer with a gate for every token (see GatedFeedForward).

    It has three matrices where the dense one has two: a d_ff of two thirds keeps the parameters (the paper, sec. 3.1).
    """

    kind: Literal["gated"] = "gated"
    activation: Activation = "silu"  # of the gate: relu is ReGLU, gelu GEGLU, silu SwiGLU
    bias: bool = False  # the paper has none

    def build(self, d_model: int, d_ff: int, dropout: float, *, layer: int = 0) -> GatedFeedForward:
        """The layer; `dropout` applies to the inner activations."""
        return GatedFeedForward(d_model, d_ff, activation=self.activation, bias=self.bias, dropout=dropout)
