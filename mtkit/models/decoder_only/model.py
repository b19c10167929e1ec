"""Decoder-only translation model: one stack reads the source and continues with the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.attention import AttentionParts, SelfAttention, SoftmaxAttention
from mtkit.layers.cache import BatchedState, KVCache, to_hypotheses, to_sentences
from mtkit.layers.norms import apply_norm
from mtkit.layers.sizes import alignment_layer
from mtkit.layers.softmax import apply_mask, causal
from mtkit.models.embeddings import Embedding
from mtkit.models.interface import State, Step, TranslationModel
from mtkit.models.transformer.layers import EncoderLayer, ParallelEncoderLayer, Stack

if TYPE_CHECKING:
    from mtkit.layers.config import FullAttentionConfig


class PrefixAttention(SelfAttention):
    """Self-attention over a prefix, and over the tokens that follow it, with the same weights.

    `forward` reads the prefix, under a causal mask or none. `attend_with_prefix` attends from new tokens to the whole
    prefix and causally to each other. A prefix has one row per sentence and its continuations one per hypothesis: the W
    hypotheses of a sentence are W times as many queries to one row, and the prefix is never copied.
    """

    kernel: SoftmaxAttention

    def __init__(self, config: FullAttentionConfig, parts: AttentionParts) -> None:
        super().__init__(config, parts)
        self.dot_product = self.kernel.dot_product

    def attend_with_prefix(
        self, x: Tensor, pos: Tensor, prefix: KVCache, *, real: Tensor | None = None, past: KVCache | None = None
    ) -> tuple[Tensor, tuple[KVCache, Tensor]]:
        """Attend from T new tokens to the prefix, to the `past` after it and to each other.

        Args:
            x: [rows, T, D], where rows = B·W and the prefix has B rows.
            pos: [rows, T], counted on after the prefix.
            prefix: keys and values of the prefix.
            real: [rows, T], or None if all tokens are real; only without `past`.
            past: keys and values of the preceding tokens after the prefix; all new tokens are then real.

        Returns:
            [rows, T, D]; the keys and values after the prefix with the new ones; the weights over the prefix
            [rows, H, T, S].
        """
        q, new = self.project(x, pos, real)  # [rows, H, T, K]
        following = new if past is None else past.append(new)  # P tokens
        sentences, length = prefix.pos.size(0), q.size(2)
        # Scores of the prefix, one row per sentence, and of the tokens after it, one row per hypothesis ...
        q_sentence = to_sentences(q, sentences)  # [B, H, W·T, K]
        pos_sentence = pos.reshape(sentences, q_sentence.size(2))  # [B, W·T]
        visible = None if prefix.real is None else prefix.real[:, None, None, :]  # [B, 1, 1, S]
        prefix_scores = apply_mask(self.dot_product.scores(q_sentence, pos_sentence, prefix), visible)
        scores = self.dot_product.scores(q, pos, following)  # [rows, H, T, P]
        scores = apply_mask(scores, following.visible(causal, pos))
        # ... go through one softmax; the weighted sums are separate again.
        scores = torch.cat([to_hypotheses(prefix_scores, length), scores], -1)  # [rows, H, T, S + P]
        weights = scores.softmax(-1)
        on_prefix, on_rest = torch.split(self.dot_product.dropout(weights), [prefix.length, following.length], dim=-1)
        y = self.dot_product.weighted_sum(to_sentences(on_prefix, sentences), pos_sentence, prefix)  # [B, H, W·T, K]
        y = to_hypotheses(y, length) + self.dot_product.weighted_sum(on_rest, pos, following)  # [rows, H, T, K]
        return self.join(y), (following, weights[..., : prefix.length])


@dataclass(frozen=True)
class Prefix(BatchedState):
    """Keys and values of the source at each depth of the stack."""

    layers: tuple[KVCache, ...]


@dataclass(frozen=True)
class DecoderOnlyCache(BatchedState):
    """Keys and values of the target at each depth (None before its first token), and the next position [rows]."""

    layers: tuple[KVCache | None, ...]
    next_pos: Tensor


class DecoderOnly(TranslationModel):
    """One stack reads `source <eos> <bos> target`. Positions count on, and `bos` separates source and target.

    Language models that translate: Gao et al. 2022, "Is Encoder-Decoder Redundant for Neural Machine Translation?",
    https://arxiv.org/abs/2210.11807 . With a bidirectional mask of the source it is the prefix language model of Raffel
    et al. 2020, sec. 3.2.1. The source goes through the stack once, one row per sentence, and is the `memory`; the
    target's keys and values are the `cache`.
    """

    def __init__(
        self,
        src_embedding: Embedding,
        tgt_embedding: Embedding,
        layers: Stack,
        *,
        final_norm: nn.Module,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.src_embedding = src_embedding
        self.tgt_embedding = tgt_embedding
        self.layers = layers
        self.final_norm = final_norm
        self.output = output
        self.alignment_layer = alignment_layer(len(layers.order))

    def decode_states(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] of the target, each given the source and the reference prefix."""
        _, states = self.forward_both(source, target)
        return states

    def forward_both(self, source: Source, target: Target) -> tuple[Tensor, Tensor]:
        """States of the source [B, S, D] and of the target [B, T, D]; each predicts the token that follows it."""
        layers = self.layers.sample_layers()
        hidden, prefix, next_pos = self._encode_prefix(source, layers)
        pos = target.pos + next_pos.unsqueeze(1)  # [B, T]
        x = self.tgt_embedding(target.ids, pos)
        for index, keys in zip(layers, prefix.layers, strict=True):
            x, _ = self._decode(index, x, pos, keys, real=target.real)
        norm = self.final_norm
        return apply_norm(norm, hidden, source.real), apply_norm(norm, x, target.real)

    def start(self, source: Source) -> State:
        """See TranslationModel."""
        _, prefix, next_pos = self._encode_prefix(source, self.layers.order)
        rows = source.ids.size(0)
        return State(
            memory=prefix,
            cache=DecoderOnlyCache(layers=(None,) * len(self.layers.order), next_pos=next_pos),
            num_sentences=rows,
            num_rows=rows,
            output_projection=self.output,
        )

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel."""
        cache, memory = state.parts(DecoderOnlyCache, Prefix)
        pos = cache.next_pos.unsqueeze(1)  # [rows, 1]
        x = self.tgt_embedding(token.unsqueeze(1), pos)  # [rows, 1, D]
        layers, attention = [], None
        for depth, index in enumerate(self.layers.order):
            x, (keys, weights) = self._decode(index, x, pos, memory.layers[depth], past=cache.layers[depth])
            layers.append(keys)
            if depth == self.alignment_layer:
                attention = weights.squeeze(2)  # [rows, H, S]
        cache = DecoderOnlyCache(layers=tuple(layers), next_pos=cache.next_pos + 1)
        return Step(self.final_norm(x).squeeze(1), replace(state, cache=cache), attention)

    def _encode_prefix(self, source: Source, layers: Sequence[int]) -> tuple[Tensor, Prefix, Tensor]:
        """Source after these layers, before the final norm [B, S, D]; keys and values; the next positions [B]."""
        x, prefix = self.src_embedding(source.ids, source.pos), []
        for index in layers:
            layer, attention = self._layer(index)
            attend = partial(attention, pos=source.pos, real=source.real)
            x, keys = self.layers.call_layer(layer.apply_with, x, source.real, attend)
            prefix.append(keys)
        return x, Prefix(tuple(prefix)), torch.where(source.real, source.pos + 1, 0).amax(1)

    def _decode(
        self,
        index: int,
        x: Tensor,
        pos: Tensor,
        prefix: KVCache,
        *,
        real: Tensor | None = None,
        past: KVCache | None = None,
    ) -> tuple[Tensor, tuple[KVCache, Tensor]]:
        """Apply the layer of this index to T target tokens [rows, T, D]; see PrefixAttention."""
        layer, attention = self._layer(index)
        attend = partial(attention.attend_with_prefix, pos=pos, prefix=prefix, real=real, past=past)
        return self.layers.call_layer(layer.apply_with, x, real, attend)

    def _layer(self, index: int) -> tuple[EncoderLayer | ParallelEncoderLayer, PrefixAttention]:
        """A layer and its attention, with the types that a Stack does not express."""
        layer: EncoderLayer | ParallelEncoderLayer = self.layers[index]  # type: ignore[assignment]
        attention: PrefixAttention = layer.attention  # type: ignore[assignment]
        return layer, attention
