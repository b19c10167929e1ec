"""The Transformer (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762), assembled from the parts in layers/."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.attention.masks import additive_mask
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.shared_prefix import by_row
from mtkit.layers.cache.state import Rows
from mtkit.layers.dropout import Dropout
from mtkit.layers.positions.base import Position
from mtkit.layers.sentence_ends import SentenceEnds
from mtkit.models.interface import State, Step, TranslationModel
from mtkit.models.transformer.stack import Stack

# Of the encoder on a processor, so that what its layers write stays in the cache: 1,000 captions in width 128 took
# 0.28 s with 1,024 places, 0.45 s with 8,000.
PLACES_AT_ONCE = 1_024


class Embedding(nn.Module):
    """Scaled token embeddings plus positions, then dropout. Vaswani et al. 2017, sec. 3.4, 3.5 and 5.4."""

    def __init__(self, table: nn.Embedding, position: Position, dropout: float) -> None:
        super().__init__()
        self.table = table
        self.position = position
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, pos: Tensor) -> Tensor:
        """ids and pos [B, T] -> [B, T, D]."""
        x = self.table(ids) * math.sqrt(self.table.embedding_dim)
        return self.dropout(self.position.embed(x, pos))


@dataclass(frozen=True)
class DecoderCache(Rows):
    """What the layer at each place of the decoder remembers so far, and the position of the next token [rows]."""

    layers: tuple[Rows, ...] | None
    next_pos: Tensor


@dataclass(frozen=True)
class Memory(Rows):
    """Each distinct decoder layer's keys and values of the source, or one for all of them."""

    layers: tuple[KeyValues, ...]

    def of(self, number: int) -> KeyValues:
        """That of a layer."""
        return self.layers[number if len(self.layers) > 1 else 0]


class Transformer(TranslationModel):
    """Encoder and decoder stacks; `start` and `step` reuse the layers of training on one token at a time."""

    def __init__(
        self,
        src_embedding: Embedding,
        tgt_embedding: Embedding,
        encoder: Stack,
        decoder: Stack,
        *,
        encoder_end: nn.Module,
        decoder_end: nn.Module,
        output: nn.Linear,
        sentence_ends: SentenceEnds | None = None,
    ) -> None:
        super().__init__()
        self.src_embedding = src_embedding
        self.tgt_embedding = tgt_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.encoder_end = encoder_end
        self.decoder_end = decoder_end
        self.output = output
        self.sentence_ends = sentence_ends  # where the encoder's attention looks at them
        # the layer whose attention is nearest to a word alignment (Garg et al. 2019, sec. 5: the last but one)
        self.alignment_layer = max(0, len(decoder.order) - 2)

    def encode(self, source: Source) -> Tensor:
        """Encoder states [B, S, D]."""
        x = self.src_embedding(source.ids, source.pos)
        ends = None if self.sentence_ends is None else self.sentence_ends(source.ids)  # [B, S]
        for number in self.encoder.passes():
            x = self.encoder.passage(self.encoder[number], x, source.pos, source.real, ends)
        return self.encoder_end(x)  # type: ignore[no-any-return]

    def hidden(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the true prefix."""
        memory = self._memory(source, source.real)
        x = self.tgt_embedding(target.ids, target.pos)
        for number in self.decoder.passes():
            layer, keys = self.decoder[number], memory.of(number)
            x, _, _ = self.decoder.passage(layer, x, target.pos, keys, real=target.real)
        return self.decoder_end(x)  # type: ignore[no-any-return]

    def start(self, source: Source, columns: Tensor | None = None) -> State:
        """Encode B sentences; nothing is decoded yet."""
        rows = source.ids.size(0)
        next_pos = torch.zeros(rows, dtype=torch.int64, device=source.ids.device)
        at_once = torch.is_grad_enabled() or source.ids.is_cuda
        parts = [source] if at_once else source.parts(PLACES_AT_ONCE)
        memories = list(zip(*(self._memory(part, None).layers for part in parts), strict=True))
        real = additive_mask(source.real, memories[0][0].k.dtype)
        return State(
            memory=Memory(tuple(KeyValues.joined(keys, source.pos, real) for keys in memories)),
            cache=DecoderCache(layers=None, next_pos=next_pos),
            num_sentences=rows,
            num_rows=rows,
            logits=self.projection(columns),
        )

    def step(self, token: Tensor, state: State) -> Step:
        """Feed one token [rows] per hypothesis."""
        cache, memory = state.cache, state.memory
        if not isinstance(cache, DecoderCache) or not isinstance(memory, Memory):
            raise ValueError(f"a state of another model: {type(cache).__name__}, {type(memory).__name__}")
        pos = cache.next_pos.unsqueeze(1)  # [rows, 1]
        x = self.tgt_embedding(token.unsqueeze(1), pos[:1])  # [rows, 1, D]; all are equally long
        layers, attention = [], None
        for place, number in enumerate(self.decoder.order):
            past = None if cache.layers is None else cache.layers[place]
            x, remembered, weights = self.decoder[number](x, pos, memory.of(number), past=past)
            layers.append(remembered)
            if place == self.alignment_layer:
                attention = by_row(weights, 1).squeeze(2)  # [rows, H, S]
        cache = DecoderCache(layers=tuple(layers), next_pos=cache.next_pos + 1)
        return Step(self.decoder_end(x).squeeze(1), replace(state, cache=cache), attention)

    def _memory(self, source: Source, real: Tensor | None) -> Memory:
        x = self.encode(source)
        attention: list[CrossAttention] = [layer.cross_attention for layer in self.decoder]  # type: ignore[misc]
        if all(each.shares_memory for each in attention):
            del attention[1:]
        return Memory(tuple(each.project(x, source.pos, real) for each in attention))
