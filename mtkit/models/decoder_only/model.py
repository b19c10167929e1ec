"""Decoder-only translation model: one stack reads the source and continues with the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.cache.kv_cache import KVCache
from mtkit.layers.cache.state import BatchedState
from mtkit.layers.norms.norm import apply_norm
from mtkit.models.decoder_only.prefix_attention import PrefixAttention, PrefixOutput
from mtkit.models.interface import State, Step, TranslationModel
from mtkit.models.transformer.layers import EncoderLayer
from mtkit.models.transformer.model import Embedding
from mtkit.models.transformer.parallel_layers import ParallelEncoderLayer
from mtkit.models.transformer.stack import Stack


@dataclass(frozen=True)
class Prefix(BatchedState):
    """Keys and values of the source at each depth of the stack."""

    layers: tuple[KVCache, ...]


@dataclass(frozen=True)
class DecoderOnlyCache(BatchedState):
    """Keys and values of the target at each depth (None before its first token), and the next position [rows]."""

    layers: tuple[KVCache | None, ...]
    next_pos: Tensor


class PrefixStates(NamedTuple):
    """The source after the stack."""

    hidden: Tensor  # [B, S, D], before the final norm
    prefix: Prefix
    length: Tensor  # [B], the first position of the target


class PrefixLayer(NamedTuple):
    """A layer and its attention, with the types that a Stack does not express."""

    layer: EncoderLayer | ParallelEncoderLayer
    attention: PrefixAttention


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
        self.alignment_layer = max(0, len(layers.order) - 2)  # as in the encoder-decoder Transformer

    def decode_states(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] of the target, each given the source and the reference prefix."""
        _, states = self.forward_both(source, target)
        return states

    def forward_both(self, source: Source, target: Target) -> tuple[Tensor, Tensor]:
        """States of the source [B, S, D] and of the target [B, T, D]; each predicts the token that follows it."""
        layers = self.layers.sample_layers()
        states = self._encode_prefix(source, layers)
        pos = target.pos + states.length.unsqueeze(1)  # [B, T]
        x = self.tgt_embedding(target.ids, pos)
        for index, keys in zip(layers, states.prefix.layers, strict=True):
            x, _ = self._decode(index, x, pos, keys, real=target.real)
        hidden = apply_norm(self.final_norm, states.hidden, source.real)
        return hidden, apply_norm(self.final_norm, x, target.real)

    def start(self, source: Source) -> State:
        """See TranslationModel."""
        states = self._encode_prefix(source, self.layers.order)
        rows = source.ids.size(0)
        return State(
            memory=states.prefix,
            cache=DecoderOnlyCache(layers=(None,) * len(self.layers.order), next_pos=states.length),
            num_sentences=rows,
            num_rows=rows,
            output_projection=self.output,
        )

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel."""
        cache, memory = state.cache, state.memory
        if not isinstance(cache, DecoderOnlyCache) or not isinstance(memory, Prefix):
            raise ValueError(f"state of another model: {type(cache).__name__}, {type(memory).__name__}")
        pos = cache.next_pos.unsqueeze(1)  # [rows, 1]
        x = self.tgt_embedding(token.unsqueeze(1), pos)  # [rows, 1, D]
        layers, attention = [], None
        for depth, index in enumerate(self.layers.order):
            x, output = self._decode(index, x, pos, memory.layers[depth], past=cache.layers[depth])
            layers.append(output.keys)
            if depth == self.alignment_layer:
                attention = output.weights.squeeze(2)  # [rows, H, S]
        cache = DecoderOnlyCache(layers=tuple(layers), next_pos=cache.next_pos + 1)
        return Step(self.final_norm(x).squeeze(1), replace(state, cache=cache), attention)

    def _encode_prefix(self, source: Source, layers: Sequence[int]) -> PrefixStates:
        x, prefix = self.src_embedding(source.ids, source.pos), []
        for index in layers:
            layer, attention = self._layer(index)
            attend = partial(attention, pos=source.pos, real=source.real)
            x, keys = self.layers.call_layer(layer.apply_with, x, source.real, attend)
            prefix.append(keys)
        length = torch.where(source.real, source.pos + 1, 0).amax(1)  # [B]
        return PrefixStates(x, Prefix(tuple(prefix)), length)

    def _decode(
        self,
        index: int,
        x: Tensor,
        pos: Tensor,
        prefix: KVCache,
        *,
        real: Tensor | None = None,
        past: KVCache | None = None,
    ) -> tuple[Tensor, PrefixOutput]:
        """Apply the layer of this index to T target tokens [rows, T, D]; see PrefixAttention."""
        layer, attention = self._layer(index)
        attend = partial(attention.attend_with_prefix, pos=pos, prefix=prefix, real=real, past=past)
        return self.layers.call_layer(layer.apply_with, x, real, attend)

    def _layer(self, index: int) -> PrefixLayer:
        layer: EncoderLayer | ParallelEncoderLayer = self.layers[index]  # type: ignore[assignment]
        attention: PrefixAttention = layer.attention  # type: ignore[assignment]
        return PrefixLayer(layer, attention)
