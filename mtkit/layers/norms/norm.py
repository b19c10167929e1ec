"""Layer norm, RMS norm, and batch norm over the real tokens of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from mtkit.layers.norms.config import BatchNormConfig, RMSNormConfig


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
        mean, var = self._batch_statistics(full, real) if self.training else (self.running_mean, self.running_var)
        return ((full - mean) * torch.rsqrt(var + self.epsilon) * self.weight + self.bias).to(x.dtype)

    def _batch_statistics(self, x: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean and variance [D] over the real tokens; updates the running ones if there are two tokens or more."""
        is_token = torch.ones(x.shape[:-1], dtype=x.dtype, device=x.device) if real is None else real.to(x.dtype)
        axes = tuple(range(x.dim() - 1))
        count = is_token.sum()
        is_token = is_token.unsqueeze(-1)  # [..., 1]
        mean = (x * is_token).sum(axes) / count.clamp(min=1)  # [D]
        var = ((x - mean).square() * is_token).sum(axes) / count.clamp(min=1)  # [D]
        with torch.no_grad():
            weight = self.momentum * (count > 1)
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), weight.to(self.running_mean.dtype))
            unbiased = var * count / (count - 1).clamp(min=1)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), weight.to(self.running_var.dtype))
        return mean, var


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
