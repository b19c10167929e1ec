"""Transformer layers with parallel sublayers: all read the same input, and their outputs are added."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.attention.kernel import TokenMixer
from mtkit.layers.cache.kv_cache import KVCache
from mtkit.layers.cache.state import BatchedState
from mtkit.layers.norms.residual import Residual
from mtkit.models.transformer.layers import R, attend_to_source


class ParallelEncoderLayer(nn.Module):
    """x = post(x, attention(h) + feed_forward(h)) with h = pre(x): one norm per layer.

    Wang & Komatsuzaki 2021 (GPT-J); Chowdhery et al. 2022, sec. 2. https://arxiv.org/abs/2204.02311
    """

    num_residuals = 1

    def __init__(self, attention: TokenMixer, feed_forward: nn.Module, residuals: tuple[Residual, ...]) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        (self.residual,) = residuals

    def forward(self, x: Tensor, pos: Tensor, real: Tensor) -> Tensor:
        """x [B, S, D] at pos [B, S], padding where real [B, S] is False -> [B, S, D]."""
        x, _ = self.apply_with(x, real, lambda h: self.attention(h, pos, real=real))
        return x

    def apply_with(
        self, x: Tensor, real: Tensor | None, attend: Callable[[Tensor], tuple[Tensor, R]]
    ) -> tuple[Tensor, R]:
        """Apply the layer with `attend` as its attention: [B, T, D] -> [B, T, D], and what `attend` returns besides."""
        h = self.residual.pre(x, real)
        y, extra = attend(h)
        return self.residual.post(x, y + self.feed_forward(h, real), real), extra


class ParallelDecoderLayer(nn.Module):
    """ParallelEncoderLayer with cross-attention as a third parallel sublayer."""

    num_residuals = 1

    def __init__(
        self,
        attention: TokenMixer,
        cross_attention: CrossAttention,
        feed_forward: nn.Module,
        residuals: tuple[Residual, ...],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        (self.residual,) = residuals

    def forward(
        self, x: Tensor, pos: Tensor, memory: KVCache, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState, Tensor]:
        """Apply the layer to T new tokens; see DecoderLayer."""
        h = self.residual.pre(x, real)
        y, state = self.attention(h, pos, real=real, past=past)
        context, weights = attend_to_source(self.cross_attention, h, pos, memory)
        return self.residual.post(x, y + context + self.feed_forward(h, real), real), state, weights
