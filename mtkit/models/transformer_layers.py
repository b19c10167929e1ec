"""The Transformer's layers: attention and feed-forward, one after the other on the residual stream."""

from __future__ import annotations

from torch import Tensor, nn

from mtkit.layers.attention import CrossAttention
from mtkit.layers.key_values import KeyValues
from mtkit.layers.residual import Residual
from mtkit.layers.rows import Rows


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each joined to the residual stream."""

    num_joints = 2

    def __init__(self, attention: nn.Module, feed_forward: nn.Module, joints: tuple[Residual, ...]) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_joint, self.feed_forward_joint = joints

    def forward(self, x: Tensor, pos: Tensor, real: Tensor) -> Tensor:
        """x [B, S, D] -> [B, S, D]."""
        y, _ = self.attention(self.attention_joint.enter(x), pos, real=real)
        x = self.attention_joint.leave(x, y)
        return self.feed_forward_joint.leave(x, self.feed_forward(self.feed_forward_joint.enter(x), real))


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
            [rows, T, D], what to remember with the new ones, and the weights over the source [rows, H, T, S].
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
        [rows, T, D], and the weights over the source [rows, H, T, S].
    """
    sentences, length = memory.pos.size(0), x.size(1)
    query = x.reshape(sentences, -1, x.size(-1))  # [B, W·T, D]
    y, weights = attention(query, pos.reshape(sentences, -1), memory)
    weights = weights.view(*weights.shape[:2], -1, length, weights.size(-1))  # [B, H, W, T, S]
    return y.reshape_as(x), weights.transpose(1, 2).flatten(0, 1)  # [rows, H, T, S]
