"""Layers of the Transformer: attention and feed-forward, in sequence or in parallel, and stacks of layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from mtkit.layers.attention import CrossAttention, TokenMixer
from mtkit.layers.cache import BatchedState, KVCache
from mtkit.layers.layer_call import LayerStack
from mtkit.layers.norms import Residual

R = TypeVar("R")


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each with a residual connection. Vaswani et al. 2017, sec. 3.1."""

    num_residuals = 2

    def __init__(self, attention: TokenMixer, feed_forward: nn.Module, residuals: tuple[Residual, ...]) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_residual, self.feed_forward_residual = residuals

    def forward(self, x: Tensor, pos: Tensor, real: Tensor) -> Tensor:
        """x [B, S, D] at pos [B, S], padding where real [B, S] is False -> [B, S, D]."""
        x, _ = self.apply_with(x, real, lambda h: self.attention(h, pos, real=real))
        return x

    def apply_with(
        self, x: Tensor, real: Tensor | None, attend: Callable[[Tensor], tuple[Tensor, R]]
    ) -> tuple[Tensor, R]:
        """Apply the layer with `attend` as its attention: [B, T, D] -> [B, T, D], and what `attend` returns besides."""
        y, extra = attend(self.attention_residual.pre(x, real))
        x = self.attention_residual.post(x, y, real)
        y = self.feed_forward(self.feed_forward_residual.pre(x, real), real)
        return self.feed_forward_residual.post(x, y, real), extra


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention and feed-forward, each with a residual connection."""

    num_residuals = 3

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
        self.attention_residual, self.cross_attention_residual, self.feed_forward_residual = residuals

    def forward(
        self, x: Tensor, pos: Tensor, memory: KVCache, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState, Tensor]:
        """Apply the layer to T new tokens.

        Args:
            x: [rows, T, D], where rows = B·W and the memory has B rows.
            pos: [rows, T].
            memory: projected keys and values of the source.
            real: [rows, T], or None if all tokens are real.
            past: state of the self-attention after the preceding tokens.

        Returns:
            [rows, T, D], the state after the new tokens, and the weights over the source [B, H, W·T, S].
        """
        y, state = self.attention(self.attention_residual.pre(x, real), pos, real=real, past=past)
        x = self.attention_residual.post(x, y, real)
        y, weights = attend_to_source(self.cross_attention, self.cross_attention_residual.pre(x, real), pos, memory)
        x = self.cross_attention_residual.post(x, y, real)
        y = self.feed_forward(self.feed_forward_residual.pre(x, real), real)
        return self.feed_forward_residual.post(x, y, real), state, weights


def attend_to_source(attention: CrossAttention, x: Tensor, pos: Tensor, memory: KVCache) -> tuple[Tensor, Tensor]:
    """Attend from the W hypotheses of each sentence to its one row of memory.

    x [rows, T, D] at pos [rows, T], where rows = B·W and the memory has B rows -> [rows, T, D], and the weights over
    the source [B, H, W·T, S].
    """
    rows, length, width = x.shape
    sentences = memory.pos.size(0)
    queries = rows // max(1, sentences) * length  # W·T
    y, weights = attention(x.reshape(sentences, queries, width), pos.reshape(sentences, queries), memory)
    return y.view_as(x), weights


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


class Stack(nn.ModuleList, LayerStack):
    """Distinct layers and the order in which they are applied, with LayerDrop.

    LayerDrop: Fan et al. 2020, sec. 3.1. https://arxiv.org/abs/1909.11556 A sublayer adds to the residual stream, so
    that a skipped layer leaves the stream unchanged. Outside training all layers run, without rescaling.

    Args:
        make: makes a distinct layer, called with 0, 1, 2, ...
        order: index of the layer at each depth.
        layerdrop: probability in training that a depth is skipped.
    """

    def __init__(self, make: Callable[[int], nn.Module], order: Sequence[int], layerdrop: float) -> None:
        super().__init__(make(index) for index in range(max(order) + 1))
        self.order = tuple(order)
        self.layerdrop = layerdrop

    def sample_layers(self) -> tuple[int, ...]:
        """Indices of the layers to apply to a whole sequence this time."""
        return tuple(self.order[depth] for depth in self.sample_depths())

    def sample_depths(self) -> tuple[int, ...]:
        """Places in `order` of the layers to apply to a whole sequence this time."""
        if not self.training or self.layerdrop == 0.0:
            return tuple(range(len(self.order)))
        is_kept = torch.rand(len(self.order)) >= self.layerdrop
        return tuple(depth for depth, keep in enumerate(is_kept.tolist()) if keep)
