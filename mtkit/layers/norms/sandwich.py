"""Sandwich norm: a norm before and after each sublayer."""

from __future__ import annotations

from torch import Tensor, nn

from mtkit.layers.dropout import Dropout
from mtkit.layers.norms.norm import apply_norm
from mtkit.layers.norms.residual import Residual


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
