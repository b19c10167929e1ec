"""The Transformer (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from mtkit.corpus.order.batch import Source, Target
from mtkit.layers.attention import CrossAttention, TokenMixer
from mtkit.layers.cache import BatchedState, KVCache, to_hypotheses
from mtkit.layers.norms import apply_norm
from mtkit.layers.softmax import additive_mask
from mtkit.models.embeddings import Embedding
from mtkit.models.interface import State, Step, TranslationModel
from mtkit.models.transformer.layers import Stack

# Tokens that the encoder processes at once on a CPU, so that activations stay in the processor's cache (measured: see
# tools/benchmarks/NOTES.md).
ENCODER_CHUNK_TOKENS = 1_024


@dataclass(frozen=True)
class TransformerCache(BatchedState):
    """Self-attention state at each depth of the decoder, and the position of the next token [rows].

    A state is None before the first token where the layer makes it from that token.
    """

    layers: tuple[BatchedState | None, ...]
    next_pos: Tensor


@dataclass(frozen=True)
class EncoderMemory(BatchedState):
    """Keys and values of the source, projected by each distinct decoder layer."""

    layers: tuple[KVCache, ...]


class Transformer(TranslationModel):
    """Encoder and decoder. `start` and `step` run the layers of training on one token at a time."""

    def __init__(
        self,
        src_embedding: Embedding,
        tgt_embedding: Embedding,
        encoder: Stack,
        decoder: Stack,
        *,
        encoder_norm: nn.Module,
        decoder_norm: nn.Module,
        output: nn.Linear,
        output_scale: float,
        alignment: tuple[int, int | None],
    ) -> None:
        super().__init__()
        self.src_embedding = src_embedding
        self.tgt_embedding = tgt_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.encoder_norm = encoder_norm
        self.decoder_norm = decoder_norm
        self.output = output
        self.output_scale = output_scale
        self.alignment_layer, head = alignment
        self.alignment_heads = slice(None) if head is None else slice(head, head + 1)

    def encode(self, source: Source) -> Tensor:
        """Encoder states [B, S, D]."""
        x = self.src_embedding(source.ids, source.pos, source.real)
        for index in self.encoder.sample_layers():
            x = self.encoder.call_layer(self.encoder[index], x, source.pos, source.real)
        return apply_norm(self.encoder_norm, x, source.real)

    def decode_states(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D], each given the reference prefix."""
        return self.decode_with_attention(source, target)[0]

    def decode_with_attention(self, source: Source, target: Target) -> tuple[Tensor, Tensor | None]:
        """Decoder states [B, T, D], and the attention of the alignment layer over the source, [B, H, T, S].

        The attention is None where LayerDrop skips that layer.
        """
        memory = self._encode_memory(source, source.real)
        x, attention = self.tgt_embedding(target.ids, target.pos), None
        for depth in self.decoder.sample_depths():
            index = self.decoder.order[depth]
            layer, keys = self.decoder[index], memory.layers[index]
            x, _, weights = self.decoder.call_layer(layer, x, target.pos, keys, real=target.real)
            if depth == self.alignment_layer:
                attention = weights
        return self._scaled(apply_norm(self.decoder_norm, x, target.real)), attention

    def start(self, source: Source) -> State:
        """See TranslationModel."""
        rows, device = source.ids.size(0), source.ids.device
        is_whole = torch.is_grad_enabled() or source.ids.is_cuda
        chunks = [source] if is_whole else source.split_by_padded_tokens(ENCODER_CHUNK_TOKENS)
        # Chunks are as long as their longest sentence. The padding of the whole batch is masked once, here, because an
        # additive mask of the whole source is cheaper in every step than a bool mask of each chunk.
        memories = list(zip(*(self._encode_memory(chunk, None).layers for chunk in chunks), strict=True))
        real = additive_mask(source.real, memories[0][0].k.dtype)  # [B, S]
        attention: list[TokenMixer] = [self.decoder[index].attention for index in self.decoder.order]  # type: ignore[misc]
        cache = TransformerCache(
            layers=tuple(each.initial_state(rows, device) for each in attention),
            next_pos=torch.zeros(rows, dtype=torch.int64, device=device),
        )
        return State(
            memory=EncoderMemory(tuple(KVCache.concat(keys, source.pos, real) for keys in memories)),
            cache=cache,
            num_sentences=rows,
            num_rows=rows,
            output_projection=self.output,
        )

    def step(self, token: Tensor, state: State) -> Step:
        """See TranslationModel."""
        cache, memory = state.parts(TransformerCache, EncoderMemory)
        pos = cache.next_pos.unsqueeze(1)  # [rows, 1]
        x = self.tgt_embedding(token.unsqueeze(1), pos[:1])  # [rows, 1, D]; all hypotheses have the same length
        layers, attention = [], None
        for depth, index in enumerate(self.decoder.order):
            x, layer_state, weights = self.decoder[index](x, pos, memory.layers[index], past=cache.layers[depth])
            layers.append(layer_state)
            if depth == self.alignment_layer:
                attention = to_hypotheses(weights, 1).squeeze(2)[:, self.alignment_heads]  # [rows, H or 1, S]
        cache = TransformerCache(layers=tuple(layers), next_pos=cache.next_pos + 1)
        return Step(self._scaled(self.decoder_norm(x)).squeeze(1), replace(state, cache=cache), attention)

    def _scaled(self, states: Tensor) -> Tensor:
        return states if self.output_scale == 1 else states * self.output_scale

    def _encode_memory(self, source: Source, real: Tensor | None) -> EncoderMemory:
        x = self.encode(source)
        attention: list[CrossAttention] = [layer.cross_attention for layer in self.decoder]  # type: ignore[misc]
        return EncoderMemory(tuple(each.project(x, source.pos, real) for each in attention))
