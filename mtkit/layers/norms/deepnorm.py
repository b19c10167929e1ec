"""DeepNorm: post-norm with a scaled residual stream and initialisation, for very deep stacks."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from mtkit.layers.dropout import Dropout
from mtkit.layers.norms.norm import apply_norm
from mtkit.layers.norms.residual import Depth, Residual


class DeepNormScales(NamedTuple):
    """Constants of a stack."""

    alpha: float  # factor of the residual stream before the sublayer's output is added
    beta: float  # gain of the initial weights on the value path


def deepnorm_scales(depth: Depth) -> DeepNormScales:
    """Compute alpha and beta from the depth. Wang et al. 2022, fig. 2: N encoder layers, M decoder layers."""
    n, m = depth.encoder, depth.decoder
    match depth.side:
        case "encoder":
            return DeepNormScales(0.81 * (n**4 * m) ** (1 / 16), 0.87 * (n**4 * m) ** (-1 / 16))
        case "decoder":
            return DeepNormScales((3 * m) ** (1 / 4), (12 * m) ** (-1 / 4))
        case "decoder_only":
            return DeepNormScales((2 * m) ** (1 / 4), (8 * m) ** (-1 / 4))


class DeepNorm(Residual):
    """x = norm(alpha · x + dropout(sublayer(x))). Wang et al. 2022, sec. 3. https://arxiv.org/abs/2203.00555"""

    def __init__(self, norm: nn.Module, dropout: float, alpha: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.alpha = alpha

    def pre(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """x itself."""
        return x

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """The norm of alpha · x + dropout(y)."""
        return apply_norm(self.norm, self.alpha * x + self.dropout(y), real)
