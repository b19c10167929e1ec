"""The Transformer's layers: attention and feed-forward, one after the other on the residual stream."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from torch import Tensor, nn

from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.state import Rows
from mtkit.layers.norms.residual import Residual

R = TypeVar("R")


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each joined to the residual stream."""

    num_joints = 2

    def __init__(self, attention: nn.Module, feed_forward: nn.Module, joints: tuple[Residual, ...]) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_joint, self.feed_forward_joint = joints

    def forward(self, x: Tensor, pos: Tensor, real: Tensor, ends: Tensor | None = None) -> Tensor:
        """x [B, S, D] -> [B, S, D]; `ends` [B, S] is for attention that looks where sentences end."""
        attend = self.attention if ends is None else partial(self.attention, ends=ends)
        x, _ = self.around(x, real, lambda h: attend(h, pos, real=real))
        return x

    def around(self, x: Tensor, real: Tensor | None, attend: Callable[[Tensor], tuple[Tensor, R]]) -> tuple[Tensor, R]:
        """The layer with attention of some kind [B, T, D] -> ([B, T, D], what else it gives)."""
        y, also = attend(self.attention_joint.enter(x))
        x = self.attention_joint.leave(x, y)
        x = self.feed_forward_joint.leave(x, self.feed_forward(self.feed_forward_joint.enter(x), real))
        return x, also


class DecoderLayer(nn.Module):
    """Self-attention, attention to the memory, and feed-forward."""

    num_joints = 3

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
        self.attention_joint, self.cross_joint, self.feed_forward_joint = joints

    def forward(
        self, x: Tensor, pos: Tensor, memory: KeyValues, *, real: Tensor | None = None, past: Rows | None = None
    ) -> tuple[Tensor, Rows, Tensor]:
        """One layer over T new tokens.

        Args:
            x: [rows, T, D], where rows = B·W and the memory has B rows.
            pos: [rows, T].
            memory: keys and values of the source.
            real: [rows, T], or None if all are.
            past: what the layer's attention remembers of the tokens so far.

        Returns:
            [rows, T, D], what to remember with the new ones, and the weights over the source [B, H, W·T, S].
        """
        y, state = self.attention(self.attention_joint.enter(x), pos, real=real, past=past)
        x = self.attention_joint.leave(x, y)
        y, weights = attend_to_source(self.cross_attention, self.cross_joint.enter(x), pos, memory)
        x = self.cross_joint.leave(x, y)
        x = self.feed_forward_joint.leave(x, self.feed_forward(self.feed_forward_joint.enter(x), real))
        return x, state, weights


def attend_to_source(attention: CrossAttention, x: Tensor, pos: Tensor, memory: KeyValues) -> tuple[Tensor, Tensor]:
    """Let the W hypotheses of a sentence attend to its one row of memory.

    Args:
        attention: from decoder to source.
        x: [rows, T, D], where rows = B·W and the memory has B rows.
        pos: [rows, T].
        memory: keys and values of the source.

    Returns:
        [rows, T, D], and the weights over the source [B, H, W·T, S].
    """
    rows, length, width = x.shape
    sentences = memory.pos.size(0)
    queries = rows // max(1, sentences) * length  # W·T
    y, weights = attention(x.reshape(sentences, queries, width), pos.reshape(sentences, queries), memory)
    return y.view_as(x), weights
