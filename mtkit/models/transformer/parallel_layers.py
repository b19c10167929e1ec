"""Layers whose sublayers read the same input and are added together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.state import Rows
from mtkit.layers.norms.residual import Residual
from mtkit.models.transformer.layers import R, attend_to_source


class ParallelEncoderLayer(nn.Module):
    """x = leave(x, attention(h) + feed_forward(h)) with h = enter(x): one norm a layer, and products side by side.

    Wang & Komatsuzaki 2021 (GPT-J); Chowdhery et al. 2022, sec. 2. https://arxiv.org/abs/2204.02311
    """

    num_joints = 1

    def __init__(self, attention: nn.Module, feed_forward: nn.Module, joints: tuple[Residual, ...]) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        (self.joint,) = joints

    def forward(self, x: Tensor, pos: Tensor, real: Tensor, ends: Tensor | None = None) -> Tensor:
        """x [B, S, D] -> [B, S, D]; `ends` [B, S] is for attention that looks where sentences end."""
        attend = self.attention if ends is None else partial(self.attention, ends=ends)
        x, _ = self.around(x, real, lambda h: attend(h, pos, real=real))
        return x

    def around(self, x: Tensor, real: Tensor | None, attend: Callable[[Tensor], tuple[Tensor, R]]) -> tuple[Tensor, R]:
        """The layer with attention of some kind [B, T, D] -> ([B, T, D], what else it gives)."""
        h = self.joint.enter(x)
        y, also = attend(h)
        return self.joint.leave(x, y + self.feed_forward(h, real)), also


class ParallelDecoderLayer(nn.Module):
    """As ParallelEncoderLayer, with the attention to the source beside the others."""

    num_joints = 1

    def __init__(
        self,
        attention: nn.Module,
        cross_attention: CrossAttention,
        feed_forward: nn.Module,
        joints: tuple[Residual, ...],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        (self.joint,) = joints

    def forward(
        self, x: Tensor, pos: Tensor, memory: KeyValues, *, real: Tensor | None = None, past: Rows | None = None
    ) -> tuple[Tensor, Rows, Tensor]:
        """One layer over T new tokens, as DecoderLayer."""
        h = self.joint.enter(x)
        y, state = self.attention(h, pos, real=real, past=past)
        seen, weights = attend_to_source(self.cross_attention, h, pos, memory)
        return self.joint.leave(x, y + seen + self.feed_forward(h, real)), state, weights
