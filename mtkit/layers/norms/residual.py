"""How a sublayer joins the residual stream: where the norm stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from mtkit.layers.dropout import Dropout
from mtkit.layers.norms.layer_norm import LayerNormConfig, NormLayerConfig


class Residual(nn.Module):
    """One sublayer's connection: y = sublayer(enter(x)); x = leave(x, y)."""

    def enter(self, x: Tensor) -> Tensor:
        """What the sublayer is given, [B, T, D]."""
        raise NotImplementedError

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        """The stream after the sublayer gave y, [B, T, D]."""
        raise NotImplementedError


class PostNorm(Residual):
    """x = norm(x + dropout(sublayer(x))). Vaswani et al. 2017, sec. 3.1 and 5.4."""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def enter(self, x: Tensor) -> Tensor:
        """x itself."""
        return x

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        """The norm of the sum."""
        return self.norm(x + self.dropout(y))  # type: ignore[no-any-return]


class PreNorm(Residual):
    """x = x + dropout(sublayer(norm(x))). Wang et al. 2019, eq. 2. https://arxiv.org/abs/1906.01787"""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def enter(self, x: Tensor) -> Tensor:
        """The norm of x."""
        return self.norm(x)  # type: ignore[no-any-return]

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum."""
        return x + self.dropout(y)


@dataclass(frozen=True, kw_only=True)
class PostNormConfig:
    """The norm after the sum, as in the paper; wants warm-up (see PostNorm)."""

    kind: Literal["post"] = "post"
    norm_layer: NormLayerConfig = field(default_factory=LayerNormConfig)

    def build(self, d_model: int, dropout: float, depth: Depth) -> Residual:
        """The connection of one sublayer."""
        return PostNorm(self.norm_layer.build(d_model), dropout)

    def final(self, d_model: int) -> nn.Module:
        """What ends a stack: nothing, the last sublayer has normalised."""
        return nn.Identity()

    def initialise(self, layer: nn.Module, depth: Depth) -> None:
        """Leave a layer's weights as they are."""


@dataclass(frozen=True, kw_only=True)
class PreNormConfig:
    """The norm before each sublayer, and one at the end of the stack; trains with large rates (see PreNorm)."""

    kind: Literal["pre"] = "pre"
    norm_layer: NormLayerConfig = field(default_factory=LayerNormConfig)

    def build(self, d_model: int, dropout: float, depth: Depth) -> Residual:
        """The connection of one sublayer."""
        return PreNorm(self.norm_layer.build(d_model), dropout)

    def final(self, d_model: int) -> nn.Module:
        """What ends a stack: a norm of the stream."""
        return self.norm_layer.build(d_model)

    def initialise(self, layer: nn.Module, depth: Depth) -> None:
        """Leave a layer's weights as they are."""


@dataclass(frozen=True)
class Depth:
    """The layers of both stacks, counted as often as they are applied; a part may begin otherwise in a deep one.

    Attributes:
        side: the stack that is meant; "alone" is a decoder without an encoder.
        encoder: N of the papers; 0 for a decoder alone.
        decoder: M of the papers.
    """

    side: Literal["encoder", "decoder", "alone"]
    encoder: int
    decoder: int
