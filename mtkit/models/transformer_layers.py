"""The Transformer's layers: attention and feed-forward, one after the other on the residual stream."""

from __future__ import annotations

from torch import Tensor, nn

from mtkit.layers.attention import CrossAttention, SelfAttention
from mtkit.layers.key_values import KeyValues
from mtkit.layers.residual import Residual


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each joined to the residual stream."""

    def __init__(self, attention: SelfAttention, feed_forward: nn.Module, joints: tuple[Residual, Residual]) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_joint, self.feed_forward_joint = joints

    def forward(self, x: Tensor, pos: Tensor, real: Tensor) -> Tensor:
        """x [B, S, D] -> [B, S, D]."""
        y, _ = self.attention(self.attention_joint.enter(x), pos, real=real)
        x = self.attention_joint.leave(x, y)
        return self.feed_forward_joint.leave(x, self.feed_forward(self.feed_forward_joint.enter(x)))


class DecoderLayer(nn.Module):
    """Self-attention, attention to the memory, and feed-forward."""

    def __init__(
        self,
        attention: SelfAttention,
        cross_attention: CrossAttention,
        feed_forward: nn.Module,
        joints: tuple[Residual, Residual, Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.attention_joint, self.cross_joint, self.feed_forward_joint = joints

    def forward(
        self, x: Tensor, pos: Tensor, memory: KeyValues, *, real: Tensor | None = None, past: KeyValues | None = None
    ) -> tuple[Tensor, KeyValues, Tensor]:
        """One layer over T new tokens.

        Args:
            x: [rows, T, D], where rows = B·W and the memory has B rows.
            pos: [rows, T].
            memory: keys and values of the source.
            real: [rows, T], or None if all are.
            past: the layer's own keys and values so far.

        Returns:
            [rows, T, D], the keys and values with the new ones, and the weights over the source [rows, H, T, S].
        """
        y, keys = self.attention(self.attention_joint.enter(x), pos, real=real, past=past)
        x = self.attention_joint.leave(x, y)
        sentences, length = memory.pos.size(0), x.size(1)
        query = self.cross_joint.enter(x).reshape(sentences, -1, x.size(-1))  # [B, W·T, D]
        y, weights = self.cross_attention(query, pos.reshape(sentences, -1), memory)
        x = self.cross_joint.leave(x, y.reshape_as(x))
        x = self.feed_forward_joint.leave(x, self.feed_forward(self.feed_forward_joint.enter(x)))
        weights = weights.unflatten(2, (-1, length)).transpose(1, 2).flatten(0, 1)  # [rows, H, T, S]
        return x, keys, weights
