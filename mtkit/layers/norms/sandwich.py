"""A norm on both sides of each sublayer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from mtkit.layers.dropout import Dropout
from mtkit.layers.norms.layer_norm import LayerNormConfig, NormLayerConfig
from mtkit.layers.norms.residual import Depth, Residual


class Sandwich(Residual):
    """x = x + dropout(after(sublayer(before(x)))): what a sublayer adds is bounded too.

    Ding et al. 2021 ("Sandwich LayerNorm"), sec. 2.4. https://arxiv.org/abs/2105.13290
    """

    def __init__(self, before: nn.Module, after: nn.Module, dropout: float) -> None:
        super().__init__()
        self.before = before
        self.after = after
        self.dropout = Dropout(dropout)

    def enter(self, x: Tensor) -> Tensor:
        """The norm of x."""
        return self.before(x)  # type: ignore[no-any-return]

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of the stream and the norm of y."""
        return x + self.dropout(self.after(y))


@dataclass(frozen=True, kw_only=True)
class SandwichConfig:
    """A norm before and after each sublayer, and one at the end of the stack (see Sandwich)."""

    kind: Literal["sandwich"] = "sandwich"
    norm_layer: NormLayerConfig = field(default_factory=LayerNormConfig)

    def build(self, d_model: int, dropout: float, depth: Depth) -> Residual:
        """The connection of one sublayer."""
        return Sandwich(self.norm_layer.build(d_model), self.norm_layer.build(d_model), dropout)

    def final(self, d_model: int) -> nn.Module:
        """What ends a stack: a norm of the stream."""
        return self.norm_layer.build(d_model)

    def initialise(self, layer: nn.Module, depth: Depth) -> None:
        """Leave a layer's weights as they are."""
