"""Residual connections of sublayers: pre-norm and post-norm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from mtkit.layers.dropout import Dropout
from mtkit.layers.norms.norm import apply_norm


class Sublayer(nn.Module, ABC):
    """Sublayer of a Transformer layer: attention, feed-forward or a replacement of either."""

    @abstractmethod
    def value_path_weights(self) -> list[Tensor]:
        """Weight matrices [d_out, d_in] on the value path, as views of the parameters.

        DeepNorm initialises these with a smaller gain. Matrices that only decide where to look or how much to take
        (query, key and router projections) are not among them.
        """


@dataclass(frozen=True)
class Depth:
    """Depth of both stacks, counting shared layers as often as they are applied; initialisation may depend on it.

    Attributes:
        side: the stack being built.
        encoder: number of encoder layers; 0 in a decoder-only model.
        decoder: number of decoder layers.
    """

    side: Literal["encoder", "decoder", "decoder_only"]
    encoder: int
    decoder: int


class Residual(nn.Module):
    """Residual connection of one sublayer: y = sublayer(pre(x)); x = post(x, y).

    `real` [B, T] is False at padding, None without it; only norms with statistics over tokens use it.
    """

    def pre(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Input of the sublayer [B, T, D]."""
        raise NotImplementedError

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """Combine the residual stream x with the sublayer's output y, [B, T, D] each."""
        raise NotImplementedError


class PostNorm(Residual):
    """x = norm(x + dropout(sublayer(x))). Vaswani et al. 2017, sec. 3.1 and 5.4."""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def pre(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """x itself."""
        return x

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """The norm of x + dropout(y)."""
        return apply_norm(self.norm, x + self.dropout(y), real)


class PreNorm(Residual):
    """x = x + dropout(sublayer(norm(x))). Wang et al. 2019, eq. 2. https://arxiv.org/abs/1906.01787"""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def pre(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """The norm of x."""
        return apply_norm(self.norm, x, real)

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """x + dropout(y)."""
        return x + self.dropout(y)
