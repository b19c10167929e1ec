"""Residual connections for comparison: norm after the sublayer, and no residual connection at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from mtkit.layers.norms.norm import LayerNormConfig, NormConfig, apply_norm
from mtkit.layers.norms.residual import Depth, PostNorm, PreNorm, Residual


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


@dataclass(frozen=True, kw_only=True)
class ResPostNormConfig:
    """Norm of each sublayer's output before the sum, and one at the end of the stack (see ResPostNorm)."""

    kind: Literal["res_post_norm"] = "res_post_norm"
    norm: NormConfig = field(default_factory=LayerNormConfig)  # the paper's

    def build(self, d_model: int, dropout: float, depth: Depth) -> Residual:
        """Build the residual connection of one sublayer."""
        return ResPostNorm(self.norm.build(d_model), dropout)

    def final(self, d_model: int) -> nn.Module:
        """Final norm of a stack."""
        return self.norm.build(d_model)

    def initialise(self, layer: nn.Module, depth: Depth) -> None:
        """Initialise a layer for this depth: nothing to do."""


@dataclass(frozen=True, kw_only=True)
class NoResidualConfig:
    """No residual connections, to see what they contribute (see NoResidual)."""

    kind: Literal["none"] = "none"
    norm: NormConfig = field(default_factory=LayerNormConfig)  # of each sublayer's input, and at the end of the stack

    def build(self, d_model: int, dropout: float, depth: Depth) -> Residual:
        """Build the connection of one sublayer."""
        return NoResidual(self.norm.build(d_model), dropout)

    def final(self, d_model: int) -> nn.Module:
        """Final norm of a stack."""
        return self.norm.build(d_model)

    def initialise(self, layer: nn.Module, depth: Depth) -> None:
        """Initialise a layer for this depth: nothing to do."""
