"""Translation by a decoder alone: it reads the source, then goes on with the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.state import Rows
from mtkit.models.decoder_only.prefix_attention import Continued, PrefixAttention
from mtkit.models.interface import State, Step, TranslationModel
from mtkit.models.transformer.layers import EncoderLayer
from mtkit.models.transformer.model import DecoderCache, Embedding
from mtkit.models.transformer.parallel_layers import ParallelEncoderLayer
from mtkit.models.transformer.stack import Stack


@dataclass(frozen=True)
class Prefix(Rows):
    """The keys and values of the source at each place of the stack."""

    layers: tuple[KeyValues, ...]


class Reading(NamedTuple):
    """The source after the stack."""

    hidden: Tensor  # [B, S, D], before the last norm
    prefix: Prefix
    length: Tensor  # [B], the position at which the target begins


class PrefixLayer(NamedTuple):
    """A layer and its attention, which the stack knows as one module."""

    layer: EncoderLayer | ParallelEncoderLayer
    attention: PrefixAttention


class DecoderOnly(TranslationModel):
    """One stack reads `source <eos> <bos> target`; its positions run on, and `bos` is what separates the two.

    As the language models that translate (Gao et al. 2022, "Is Encoder-Decoder Redundant for Neural Machine
    Translation?", https://arxiv.org/abs/2210.11807); with a bidirectional view of the source it is the prefix language
    model of Raffel et al. 2020, sec. 3.2.1. The source goes through the stack once, one row a sentence, and is the
    `memory`; the target's keys and values are the `cache`.
    """

    def __init__(
        self, src_embedding: Embedding, tgt_embedding: Embedding, layers: Stack, *, end: nn.Module, output: nn.Linear
    ) -> None:
        super().__init__()
        self.src_embedding = src_embedding
        self.tgt_embedding = tgt_embedding
        self.layers = layers
        self.end = end
        self.output = output
        self.alignment_layer = max(0, len(layers.order) - 2)  # as in the encoder-decoder Transformer

    def hidden(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] of the target given the source and the true prefix."""
        _, states = self.both(source, target)
        return states

    def both(self, source: Source, target: Target) -> tuple[Tensor, Tensor]:
        """States of the source [B, S, D] and of the target [B, T, D]; each predicts the piece that follows it."""
        passes = self.layers.passes()
        reading = self._read(source, passes)
        pos = target.pos + reading.length.unsqueeze(1)  # [B, T]
        x = self.tgt_embedding(target.ids, pos)
        for number, keys in zip(passes, reading.prefix.layers, strict=True):
            x, _ = self._proceed(number, x, pos, keys, real=target.real)
        return self.end(reading.hidden), self.end(x)

    def start(self, source: Source, columns: Tensor | None = None) -> State:
        """Read B sentences; nothing is decoded yet."""
        reading = self._read(source, self.layers.order)
        rows = source.ids.size(0)
        return State(
            memory=reading.prefix,
            cache=DecoderCache(layers=None, next_pos=reading.length),
            num_sentences=rows,
            num_rows=rows,
            logits=self.projection(columns),
        )

    def step(self, token: Tensor, state: State) -> Step:
        """Feed one token [rows] per hypothesis."""
        cache, memory = state.cache, state.memory
        if not isinstance(cache, DecoderCache) or not isinstance(memory, Prefix):
            raise ValueError(f"a state of another model: {type(cache).__name__}, {type(memory).__name__}")
        pos = cache.next_pos.unsqueeze(1)  # [rows, 1]
        x = self.tgt_embedding(token.unsqueeze(1), pos)  # [rows, 1, D]
        layers, attention = [], None
        for place, number in enumerate(self.layers.order):
            past = None if cache.layers is None else cache.layers[place]
            x, continued = self._proceed(number, x, pos, memory.layers[place], past=past)
            layers.append(continued.keys)
            if place == self.alignment_layer:
                attention = continued.weights.squeeze(2)  # [rows, H, S]
        cache = DecoderCache(layers=tuple(layers), next_pos=cache.next_pos + 1)
        return Step(self.end(x).squeeze(1), replace(state, cache=cache), attention)

    def _read(self, source: Source, passes: Sequence[int]) -> Reading:
        x, prefix = self.src_embedding(source.ids, source.pos), []
        for number in passes:
            layer, attention = self._layer(number)
            attend = partial(attention, pos=source.pos, real=source.real)
            x, keys = self.layers.passage(layer.around, x, source.real, attend)
            prefix.append(keys)
        length = torch.where(source.real, source.pos + 1, 0).amax(1)  # [B]
        return Reading(x, Prefix(tuple(prefix)), length)

    def _proceed(
        self,
        number: int,
        x: Tensor,
        pos: Tensor,
        prefix: KeyValues,
        *,
        real: Tensor | None = None,
        past: Rows | None = None,
    ) -> tuple[Tensor, Continued]:
        layer, attention = self._layer(number)
        attend = partial(attention.proceed, pos=pos, prefix=prefix, real=real, past=past)
        return self.layers.passage(layer.around, x, real, attend)

    def _layer(self, number: int) -> PrefixLayer:
        layer: EncoderLayer | ParallelEncoderLayer = self.layers[number]  # type: ignore[assignment]
        attention: PrefixAttention = layer.attention  # type: ignore[assignment]
        return PrefixLayer(layer, attention)
