"""DeepNorm: post-norm whose stream is enlarged, so that very deep stacks train."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from torch import Tensor, nn

from mtkit.layers.branch import Branch
from mtkit.layers.dropout import Dropout
from mtkit.layers.norms.layer_norm import LayerNormConfig, NormLayerConfig
from mtkit.layers.norms.residual import Depth, Residual


class Scales(NamedTuple):
    """The two constants of a stack."""

    alpha: float  # what the stream is multiplied by before a sublayer's result is added
    beta: float  # the gain of the first weights that values go through


def deep_scales(depth: Depth) -> Scales:
    """alpha and beta by depth. Wang et al. 2022, fig. 2, table: N encoder layers, M decoder layers."""
    n, m = depth.encoder, depth.decoder
    match depth.side:
        case "encoder":
            return Scales(0.81 * (n**4 * m) ** (1 / 16), 0.87 * (n**4 * m) ** (-1 / 16))
        case "decoder":
            return Scales((3 * m) ** (1 / 4), (12 * m) ** (-1 / 4))
        case "alone":
            return Scales((2 * m) ** (1 / 4), (8 * m) ** (-1 / 4))


class DeepNorm(Residual):
    """x = norm(alpha · x + dropout(sublayer(x))). Wang et al. 2022, sec. 3. https://arxiv.org/abs/2203.00555"""

    def __init__(self, norm: nn.Module, dropout: float, alpha: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.alpha = alpha

    def enter(self, x: Tensor) -> Tensor:
        """x itself."""
        return x

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        """The norm of the weighted sum."""
        return self.norm(self.alpha * x + self.dropout(y))  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class DeepNormConfig:
    """Post-norm for stacks of tens to hundreds of layers, with its scales and its initialisation (see DeepNorm)."""

    kind: Literal["deep"] = "deep"
    norm_layer: NormLayerConfig = field(default_factory=LayerNormConfig)

    def build(self, d_model: int, dropout: float, depth: Depth) -> Residual:
        """The connection of one sublayer."""
        return DeepNorm(self.norm_layer.build(d_model), dropout, deep_scales(depth).alpha)

    def final(self, d_model: int) -> nn.Module:
        """What ends a stack: nothing, the last sublayer has normalised."""
        return nn.Identity()

    def initialise(self, layer: nn.Module, depth: Depth) -> None:
        """Draw the weights that values go through anew: Xavier-normal with gain beta. The paper, fig. 2.

        Query and key keep the house's Xavier-uniform weights, where the paper has Xavier-normal ones of gain 1.
        """
        beta = deep_scales(depth).beta
        for branch in layer.modules():
            for weight in branch.value_weights() if isinstance(branch, Branch) else ():
                nn.init.xavier_normal_(weight, gain=beta)
