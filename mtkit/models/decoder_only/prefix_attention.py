"""Self-attention over a prefix that several hypotheses share and over the tokens that follow it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mtkit.layers.attention.masks import Pattern, apply_mask, causal
from mtkit.layers.attention.multi_head import SelfAttention
from mtkit.layers.attention.softmax import SoftmaxAttention
from mtkit.layers.cache.kv_cache import KVCache
from mtkit.layers.cache.shared_prefix import to_hypotheses, to_sentences
from mtkit.layers.heads import Heads, join_heads
from mtkit.layers.key_types import QKNorm
from mtkit.layers.positions.base import Position


class PrefixOutput(NamedTuple):
    """State and weights of attention over a prefix and the tokens that follow it."""

    keys: KVCache  # of all tokens after the prefix
    weights: Tensor  # over the prefix, [rows, H, T, S]


class PrefixAttention(SelfAttention):
    """Self-attention over a prefix, and over the tokens that follow it, with the same weights.

    `forward` reads the prefix under the attention `pattern`. `attend_with_prefix` attends from new tokens to the whole
    prefix and causally to each other. A prefix has one row per sentence and its continuations one per hypothesis: the W
    hypotheses of a sentence are W times as many queries to one row, and the prefix is never copied.
    """

    def __init__(
        self,
        d_model: int,
        heads: Heads,
        *,
        position: Position,
        pattern: Pattern,
        dropout: float,
        norm: QKNorm = "none",
    ) -> None:
        kernel = SoftmaxAttention(position=position, pattern=pattern, dropout=dropout)
        super().__init__(d_model, heads, position=position, kernel=kernel, norm=norm)
        self.dot_product = kernel.dot_product

    def attend_with_prefix(
        self, x: Tensor, pos: Tensor, prefix: KVCache, *, real: Tensor | None = None, past: KVCache | None = None
    ) -> tuple[Tensor, PrefixOutput]:
        """Attend from T new tokens to the prefix, to the `past` after it and to each other.

        Args:
            x: [rows, T, D], where rows = B·W and the prefix has B rows.
            pos: [rows, T], counted on after the prefix.
            prefix: keys and values of the prefix.
            real: [rows, T], or None if all tokens are real; only without `past`.
            past: keys and values of the preceding tokens after the prefix; all new tokens are then real.

        Returns:
            [rows, T, D]; and the keys with the new ones, and the weights over the prefix.
        """
        q, new = self.project(x, pos, real)  # [rows, H, T, K]
        own = new if past is None else past.append(new)  # P tokens
        sentences, length = prefix.pos.size(0), q.size(2)
        # Scores of the prefix, one row per sentence, and of the tokens after it, one row per hypothesis ...
        q_sentence = to_sentences(q, sentences)  # [B, H, W·T, K]
        pos_sentence = pos.reshape(sentences, q_sentence.size(2))  # [B, W·T]
        visible = None if prefix.real is None else prefix.real[:, None, None, :]  # [B, 1, 1, S]
        prefix_scores = apply_mask(self.dot_product.scores(q_sentence, pos_sentence, prefix), visible)
        own_scores = apply_mask(self.dot_product.scores(q, pos, own), own.visible(causal, pos))  # [rows, H, T, P]
        # ... go through one softmax; the weighted sums are separate again.
        scores = torch.cat([to_hypotheses(prefix_scores, length), own_scores], -1)  # [rows, H, T, S + P]
        weights = scores.softmax(-1)
        on_prefix, on_own = torch.split(self.dot_product.dropout(weights), [prefix.length, own.length], dim=-1)
        y = self.dot_product.weighted_sum(to_sentences(on_prefix, sentences), pos_sentence, prefix)  # [B, H, W·T, K]
        y = to_hypotheses(y, length) + self.dot_product.weighted_sum(on_own, pos, own)  # [rows, H, T, K]
        return self.out(join_heads(y)), PrefixOutput(own, weights[..., : prefix.length])
