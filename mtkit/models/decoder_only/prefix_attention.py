"""Attention of a sequence to itself and to a prefix that several sequences share."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mtkit.layers.attention.kernel import with_new
from mtkit.layers.attention.masks import Pattern, causal, visibility
from mtkit.layers.attention.multi_head import QueryKeyNorm, SelfAttention
from mtkit.layers.attention.softmax import SoftmaxAttention
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.shared_prefix import KeyTree, by_row, by_tree
from mtkit.layers.cache.state import Rows
from mtkit.layers.heads import Heads, join_heads
from mtkit.layers.positions.base import Position


class Continued(NamedTuple):
    """What attention gives besides its output when it goes on after a prefix."""

    keys: KeyValues  # of everything after the prefix
    weights: Tensor  # over the prefix, [rows, H, T, S]


class PrefixAttention(SelfAttention):
    """Self-attention over a prefix, and over what follows it, with the same weights.

    Called as any self-attention it reads the prefix, of which `pattern` says who sees whom. `proceed` lets new tokens
    attend to the whole prefix and causally to each other. Prefixes have one row a sentence and continuations one a
    hypothesis, W of them a sentence: these are W times as many queries against one row, and the prefix is never copied.
    """

    def __init__(
        self,
        d_model: int,
        heads: Heads,
        *,
        position: Position,
        pattern: Pattern,
        dropout: float,
        norm: QueryKeyNorm = "none",
    ) -> None:
        kernel = SoftmaxAttention(position=position, pattern=pattern, dropout=dropout)
        super().__init__(d_model, heads, position=position, kernel=kernel, norm=norm)
        self.weigh = kernel.weigh

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: Rows | None = None
    ) -> tuple[Tensor, Rows]:
        """See SelfAttention; a prefix is remembered as its keys, on which `proceed` goes on."""
        y, state = super().forward(x, pos, real=real, past=past)
        return y, state.nodes if isinstance(state, KeyTree) else state

    def proceed(
        self, x: Tensor, pos: Tensor, prefix: KeyValues, *, real: Tensor | None = None, past: Rows | None = None
    ) -> tuple[Tensor, Continued]:
        """Let T tokens attend to the prefix, to the `past` after it and to themselves.

        Args:
            x: [rows, T, D], where rows = B·W and the prefix has B rows.
            pos: [rows, T], counted on after the prefix.
            prefix: keys and values of the prefix.
            real: [rows, T], or None if all are; without `past` only.
            past: the keys and values after the prefix so far; all new tokens are then real.

        Returns:
            [rows, T, D], and the keys with the new ones and the weights over the prefix.
        """
        q, new = self.project(x, pos, real)  # [rows, H, T, K]
        own = with_new(past, new)
        sentences, length = prefix.pos.size(0), q.size(2)
        q_sentence = by_tree(q, sentences)  # [B, H, W·T, K]
        pos_sentence = pos.reshape(sentences, q_sentence.size(2))  # [B, W·T]
        seen = None if prefix.real is None else prefix.real[:, None, None, :]  # [B, 1, 1, S]
        to_prefix = by_row(self.weigh.score(q_sentence, pos_sentence, prefix, seen), length)  # [rows, H, T, S]
        to_own = self.weigh.score(q, pos, own, visibility(causal, pos, own))  # [rows, H, T, P]
        weights = torch.cat([to_prefix, to_own], -1).softmax(-1)  # [rows, H, T, S + P]
        dropped = self.weigh.dropout(weights)
        sizes = [prefix.length, own.length]
        on_prefix, on_own = torch.split(dropped, sizes, dim=-1)
        from_prefix = self.weigh.mix(by_tree(on_prefix, sentences), pos_sentence, prefix)  # [B, H, W·T, K]
        y = by_row(from_prefix, length) + self.weigh.mix(on_own, pos, own)  # [rows, H, T, K]
        return self.out(join_heads(y)), Continued(own, weights[..., : prefix.length])
