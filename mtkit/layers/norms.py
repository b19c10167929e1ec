"""Norms and residual connections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor, nn

from mtkit.layers.dropout import Dropout

if TYPE_CHECKING:
    from mtkit.layers.config import BatchNormConfig, ResidualConfigBase, RMSNormConfig


class BatchNorm(nn.Module):
    """(x - mean) / sqrt(variance + epsilon) · g + b with the statistics of each of the D numbers over all real tokens.

    Ioffe & Szegedy 2015, algorithms 1 and 2. https://arxiv.org/abs/1502.03167 Padding is excluded. Evaluation uses
    running means, which training updates: r <- (1 - momentum) r + momentum · statistic, with the unbiased variance.

    Why it fails on text: the statistics of a batch of sentences vary much more than those of a batch of images, so that
    the running ones differ from those that the following layers were trained on (Shen et al. 2020, sec. 3,
    https://arxiv.org/abs/2003.07845). Besides, the result of a token depends on the other sentences of its micro-batch
    and, in a decoder, on following tokens, which do not exist while translating. Activation checkpointing updates the
    running statistics twice. With several processes each has those of its own micro-batches, and the first one's are
    saved.
    """

    running_mean: Tensor  # [D]
    running_var: Tensor  # [D]

    def __init__(self, config: BatchNormConfig, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))
        self.epsilon = config.epsilon
        self.momentum = config.momentum

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """x [..., D], whose tokens are padding where real [...] is False -> [..., D] in the type of x."""
        full = x.to(torch.promote_types(x.dtype, torch.float32))  # [..., D]
        mean, var = self.running_mean, self.running_var
        if self.training:
            is_token = full.new_ones(x.shape[:-1]) if real is None else real.to(full.dtype)  # [...]
            axes, count = tuple(range(x.dim() - 1)), is_token.sum()
            is_token = is_token.unsqueeze(-1)  # [..., 1]
            mean = (full * is_token).sum(axes) / count.clamp(min=1)  # [D]
            var = ((full - mean).square() * is_token).sum(axes) / count.clamp(min=1)  # [D]
            with torch.no_grad():
                weight = self.momentum * (count > 1)  # a single token has no variance
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), weight.to(self.running_mean.dtype))
                unbiased = var * count / (count - 1).clamp(min=1)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), weight.to(self.running_var.dtype))
        return ((full - mean) * torch.rsqrt(var + self.epsilon) * self.weight + self.bias).to(x.dtype)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + epsilon) · g: a layer norm without its mean and its bias.

    Zhang & Sennrich 2019, eq. 4. https://arxiv.org/abs/1910.07467 Computed in float32 at least.
    """

    def __init__(self, config: RMSNormConfig, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.epsilon = config.epsilon

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D], in the type of x."""
        full = x.to(torch.promote_types(x.dtype, torch.float32))  # [..., D]
        scale = torch.rsqrt(full.square().mean(-1, keepdim=True) + self.epsilon)  # [..., 1]
        return (full * scale * self.weight).to(x.dtype)


def apply_norm(norm: nn.Module, x: Tensor, real: Tensor | None) -> Tensor:
    """Normalise x [B, T, D]; a norm with statistics over tokens leaves out those where real [B, T] is False."""
    y: Tensor = norm(x, real) if isinstance(norm, BatchNorm) else norm(x)
    return y


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
    """Depth of both stacks, counting shared layers as often as they are applied; initialisation may depend on it."""

    side: Literal["encoder", "decoder", "decoder_only"]  # the stack being built
    encoder: int  # number of encoder layers; 0 in a decoder-only model
    decoder: int  # number of decoder layers


class Residual(nn.Module):
    """Residual connection of one sublayer: y = sublayer(pre(x)); x = post(x, y).

    `real` [B, T] is False at padding, None without it; only norms with statistics over tokens use it.
    """

    def __init__(self, config: ResidualConfigBase, d_model: int, dropout: float, depth: Depth) -> None:
        super().__init__()
        self.norm = config.norm.build(d_model)
        self.dropout = Dropout(dropout)

    def pre(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Input of the sublayer [B, T, D]: x itself, unless a kind normalises it."""
        return x

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """Combine the residual stream x with the sublayer's output y, [B, T, D] each."""
        raise NotImplementedError


class PostNorm(Residual):
    """x = norm(x + dropout(sublayer(x))). Vaswani et al. 2017, sec. 3.1 and 5.4."""

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """The norm of x + dropout(y)."""
        return apply_norm(self.norm, self.dropout.add(x, y), real)


class PreNorm(Residual):
    """x = x + dropout(sublayer(norm(x))). Wang et al. 2019, eq. 2. https://arxiv.org/abs/1906.01787"""

    def pre(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """The norm of x."""
        return apply_norm(self.norm, x, real)

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """x + dropout(y)."""
        return self.dropout.add(x, y)


class SandwichNorm(Residual):
    """x = x + dropout(after(sublayer(before(x)))). The second norm bounds the sublayer's contribution.

    Ding et al. 2021 ("Sandwich LayerNorm"), sec. 2.4. https://arxiv.org/abs/2105.13290
    """

    def __init__(self, config: ResidualConfigBase, d_model: int, dropout: float, depth: Depth) -> None:
        nn.Module.__init__(self)
        self.before, self.after = config.norm.build(d_model), config.norm.build(d_model)
        self.dropout = Dropout(dropout)

    def pre(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """The norm of x."""
        return apply_norm(self.before, x, real)

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """x + dropout(norm of y)."""
        return self.dropout.add(x, apply_norm(self.after, y, real))


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

    def __init__(self, config: ResidualConfigBase, d_model: int, dropout: float, depth: Depth) -> None:
        super().__init__(config, d_model, dropout, depth)
        self.alpha = deepnorm_scales(depth).alpha

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """The norm of alpha · x + dropout(y)."""
        return apply_norm(self.norm, self.dropout.add(self.alpha * x, y), real)


class ResPostNorm(Residual):
    """x = x + dropout(norm(sublayer(x))). Liu et al. 2022 (Swin Transformer V2), sec. 3.2, "res-post-norm".

    https://arxiv.org/abs/2111.09883 Each sublayer contributes with the same size. The paper has a further norm after
    every six layers of its largest models; here one ends the stack.
    """

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """x + dropout(norm of y)."""
        return self.dropout.add(x, apply_norm(self.norm, y, real))


class NoResidual(PreNorm):
    """x = dropout(sublayer(norm(x))): no residual connection, with which deep stacks hardly train.

    He et al. 2016, sec. 4.1, compare both. https://arxiv.org/abs/1512.03385 The decoder sees the source only through
    cross-attention, and its own token only through self-attention.
    """

    def post(self, x: Tensor, y: Tensor, real: Tensor | None = None) -> Tensor:
        """dropout(y)."""
        return self.dropout(y)
