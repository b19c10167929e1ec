"""Sandwich norm: a norm before and after each sublayer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from mtkit.layers.dropout import Dropout
from mtkit.layers.norms.norm import LayerNormConfig, NormConfig, apply_norm
from mtkit.layers.norms.residual import Depth, Residual


class SandwichNorm(Residual):
    """x = x + dropout(after(sublayer(before(x)))). The second norm bounds the sublayer's contribution.

    Ding et al. 2021 ("Sandwich LayerNorm"), sec. 2.4. https://arxiv.org/abs/2105.13290
    """

    def __init__(self, before: nn.Module, after: nn.Module, dropout: float) -> None:
        super().__init__()
        self.before = before
        self.after = after
        self.dropout = Dropout(dropout)

    def pre(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """The norm of x."""
        return apply_norm(self.before, x, real)

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """x + dropout(norm of y)."""
        return x + self.dropout(apply_norm(self.after, y, real))


@dataclass(frozen=True, kw_only=True)
class SandwichNormConfig:
    """Norms before and after each sublayer, and one at the end of the stack (see SandwichNorm)."""

    kind: Literal["sandwich"] = "sandwich"
    norm: NormConfig = field(default_factory=LayerNormConfig)  # rms is cheaper, of equal quality in our study

    def build(self, d_model: int, dropout: float, depth: Depth) -> Residual:
        """Build the residual connection of one sublayer."""
        return SandwichNorm(self.norm.build(d_model), self.norm.build(d_model), dropout)

    def final(self, d_model: int) -> nn.Module:
        """Final norm of a stack."""
        return self.norm.build(d_model)

    def initialise(self, layer: nn.Module, depth: Depth) -> None:
        """Initialise a layer for this depth: nothing to do."""
