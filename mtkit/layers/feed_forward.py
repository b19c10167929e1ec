"""Position-wise feed-forward layers: dense, and gated (GLU variants)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from mtkit.layers.activations import activation_function
from mtkit.layers.dropout import Dropout
from mtkit.layers.norms import Sublayer
from mtkit.layers.projections import linear

if TYPE_CHECKING:
    from mtkit.layers.config import DenseConfig, GatedConfig


class FeedForward(Sublayer):
    """W2 · act(W1 x + b1) + b2 at each position. Vaswani et al. 2017, eq. 2."""

    def __init__(self, config: DenseConfig, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.inner = linear(d_model, d_ff)
        self.outer = linear(d_ff, d_model)
        self.activation = activation_function(config.activation)
        self.dropout = Dropout(dropout)
        self.is_relu = config.activation == "relu"

    def value_path_weights(self) -> list[Tensor]:
        """See Sublayer."""
        return [self.inner.weight, self.outer.weight]

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """[..., D] -> [..., D]; `real` is ignored, padding is computed too."""
        inner = self.inner(x)
        inner = self.dropout.of_relu(inner) if self.is_relu else self.dropout(self.activation(inner))
        return self.outer(inner)  # type: ignore[no-any-return]


class GatedFeedForward(Sublayer):
    """W2 (act(W x) * V x) at each position; W and V are one projection.

    Shazeer 2020, eq. 5 and 6. https://arxiv.org/abs/2002.05202 ReGLU, GEGLU or SwiGLU, by activation.
    """

    def __init__(self, config: GatedConfig, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.gate_value = linear(d_model, 2 * d_ff, bias=config.bias)
        self.outer = linear(d_ff, d_model, bias=config.bias)
        self.activation = activation_function(config.activation)
        self.dropout = Dropout(dropout)

    def value_path_weights(self) -> list[Tensor]:
        """See Sublayer; the gate is included, since it scales the output."""
        return [*self.gate_value.weight.chunk(2), self.outer.weight]

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """[..., D] -> [..., D]; `real` is ignored, padding is computed too."""
        gate, value = self.gate_value(x).chunk(2, dim=-1)  # [..., F] each
        return self.outer(self.dropout(self.activation(gate) * value))  # type: ignore[no-any-return]
