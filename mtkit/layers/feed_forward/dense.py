"""Position-wise feed-forward layer."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from mtkit.layers.dropout import Dropout
from mtkit.layers.key_types import Activation
from mtkit.layers.norms.residual import Sublayer
from mtkit.layers.projections import linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


class FeedForward(Sublayer):
    """W2 · act(W1 x + b1) + b2 at each position. Vaswani et al. 2017, eq. 2."""

    def __init__(self, d_model: int, d_ff: int, *, activation: Activation, dropout: float) -> None:
        super().__init__()
        self.inner = linear(d_model, d_ff)
        self.outer = linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def value_path_weights(self) -> list[Tensor]:
        """See Sublayer."""
        return [self.inner.weight, self.outer.weight]

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """[..., D] -> [..., D]; `real` is ignored, padding is computed too."""
        return self.outer(self.dropout(self.activation(self.inner(x))))  # type: ignore[no-any-return]
