"""Residual connections for comparison: norm after the sublayer, and no residual connection at all."""

from __future__ import annotations

from torch import Tensor

from mtkit.layers.norms.norm import apply_norm
from mtkit.layers.norms.residual import PostNorm, PreNorm


class ResPostNorm(PostNorm):
    """x = x + dropout(norm(sublayer(x))). Liu et al. 2022 (Swin Transformer V2), sec. 3.2, "res-post-norm".

    https://arxiv.org/abs/2111.09883 Each sublayer contributes with the same size. The paper has a further norm after
    every six layers of its largest models; here one ends the stack.
    """

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """x + dropout(norm of y)."""
        return x + self.dropout(apply_norm(self.norm, y, real))


class NoResidual(PreNorm):
    """x = dropout(sublayer(norm(x))): no residual connection, with which deep stacks hardly train.

    He et al. 2016, sec. 4.1, compare both. https://arxiv.org/abs/1512.03385 The decoder sees the source only through
    cross-attention, and its own token only through self-attention.
    """

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """dropout(y)."""
        return self.dropout(y)
