"""The Transformer (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762), assembled from the parts in layers/."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mtkit.corpus.batch import Source, Target
from mtkit.layers.attention import CrossAttention, Heads, SelfAttention
from mtkit.layers.dropout import Dropout
from mtkit.layers.feed_forward import DenseConfig
from mtkit.layers.key_values import KeyValues
from mtkit.layers.learned import LearnedConfig
from mtkit.layers.linear import embedding, linear
from mtkit.layers.no_position import NoPositionConfig
from mtkit.layers.pattern import Pattern, causal, full
from mtkit.layers.position import Position
from mtkit.layers.residual import PostNormConfig, PreNormConfig, Residual
from mtkit.layers.rows import Rows
from mtkit.layers.sinusoidal import SinusoidalConfig
from mtkit.layers.softmax_attention import SoftmaxAttention
from mtkit.models.model import TranslationModel
from mtkit.models.state import Advance, State

PositionConfig = Annotated[SinusoidalConfig | LearnedConfig | NoPositionConfig, Field(discriminator="kind")]
NormConfig = Annotated[PreNormConfig | PostNormConfig, Field(discriminator="kind")]
FeedForwardConfig = DenseConfig


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
        return self.dropout(self.position.embed(x, pos))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class DecoderCache(Rows):
    """Each decoder layer's keys and values so far, and the position of the next token [rows]."""

    layers: tuple[KeyValues, ...] | None
    next_pos: Tensor


@dataclass(frozen=True)
class Memory(Rows):
    """Each decoder layer's keys and values of the source."""

    layers: tuple[KeyValues, ...]


class Transformer(TranslationModel):
    """Encoder and decoder stacks; `start` and `step` reuse the layers of training on one token at a time."""

    def __init__(
        self,
        src_embedding: Embedding,
        tgt_embedding: Embedding,
        encoder: list[EncoderLayer],
        decoder: list[DecoderLayer],
        *,
        encoder_end: nn.Module,
        decoder_end: nn.Module,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.src_embedding = src_embedding
        self.tgt_embedding = tgt_embedding
        self.encoder = nn.ModuleList(encoder)
        self.decoder = nn.ModuleList(decoder)
        self.encoder_end = encoder_end
        self.decoder_end = decoder_end
        self.output = output
        # the layer whose attention is nearest to a word alignment (Garg et al. 2019, sec. 5: the last but one)
        self.alignment_layer = max(0, len(decoder) - 2)

    def encode(self, source: Source) -> Tensor:
        """Encoder states [B, S, D]."""
        x = self.src_embedding(source.ids, source.pos)
        for layer in self.encoder:
            x = layer(x, source.pos, source.real)
        return self.encoder_end(x)  # type: ignore[no-any-return]

    def hidden(self, source: Source, target: Target) -> Tensor:
        """Decoder states [B, T, D] given the true prefix."""
        memory = self._memory(source)
        x = self.tgt_embedding(target.ids, target.pos)
        for layer, keys in zip(self.decoder, memory.layers, strict=True):
            x, _, _ = layer(x, target.pos, keys, real=target.real)
        return self.decoder_end(x)  # type: ignore[no-any-return]

    def start(self, source: Source, columns: Tensor | None = None) -> State:
        """Encode B sentences; nothing is decoded yet."""
        rows = source.ids.size(0)
        next_pos = torch.zeros(rows, dtype=torch.int64, device=source.ids.device)
        return State(
            memory=self._memory(source),
            cache=DecoderCache(layers=None, next_pos=next_pos),
            num_sentences=rows,
            num_rows=rows,
            logits=self.projection(columns),
        )

    def advance(self, token: Tensor, state: State) -> Advance:
        """Feed one token [rows] per hypothesis."""
        cache, memory = state.cache, state.memory
        if not isinstance(cache, DecoderCache) or not isinstance(memory, Memory):
            raise ValueError(f"a state of another model: {type(cache).__name__}, {type(memory).__name__}")
        pos = cache.next_pos.unsqueeze(1)  # [rows, 1]
        x = self.tgt_embedding(token.unsqueeze(1), pos)  # [rows, 1, D]
        layers, attention = [], None
        for i, layer in enumerate(self.decoder):
            past = None if cache.layers is None else cache.layers[i]
            x, keys, weights = layer(x, pos, memory.layers[i], past=past)
            layers.append(keys)
            if i == self.alignment_layer:
                attention = weights.squeeze(2)  # [rows, H, S]
        cache = DecoderCache(layers=tuple(layers), next_pos=cache.next_pos + 1)
        return Advance(self.decoder_end(x).squeeze(1), replace(state, cache=cache), attention)

    def _memory(self, source: Source) -> Memory:
        memory = self.encode(source)
        return Memory(tuple(layer.cross_attention.project(memory, source.pos, source.real) for layer in self.decoder))


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Encoder-decoder Transformer. The defaults train on Multi30k (29,000 pairs) without overfitting at once."""

    kind: Literal["transformer"] = "transformer"
    d_model: Annotated[int, Field(gt=0)] = 256
    d_ff: Annotated[int, Field(gt=0)] = 1024  # 4·d_model, as in the paper
    num_heads: Annotated[int, Field(gt=0)] = 4
    num_kv_heads: Annotated[int, Field(gt=0)] | None = None  # fewer than num_heads: grouped-query; 1: multi-query
    head_dim: Annotated[int, Field(gt=0)] | None = None  # d_model / num_heads unless set
    encoder_layers: Annotated[int, Field(gt=0)] = 3
    decoder_layers: Annotated[int, Field(gt=0)] = 3
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.3  # embeddings and sublayer outputs; the paper's 0.1 is for WMT
    attention_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    activation_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    encoder_positions: PositionConfig = field(default_factory=SinusoidalConfig)
    decoder_positions: PositionConfig = field(default_factory=SinusoidalConfig)
    norm: NormConfig = field(default_factory=PreNormConfig)  # trains with larger rates than the paper's post-norm
    feed_forward: FeedForwardConfig = field(default_factory=DenseConfig)
    tied_embeddings: Literal["all", "target", "none"] = "all"  # all: source, target, softmax; target: the last two

    def __post_init__(self) -> None:
        if self.head_dim is None and self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads: {self.num_heads} does not divide d_model {self.d_model}; change one or set head_dim"
            )
        if self.num_kv_heads is not None and self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_kv_heads: {self.num_kv_heads} does not divide num_heads {self.num_heads}")

    @property
    def heads(self) -> Heads:
        """How the width is cut into heads."""
        head_dim = self.head_dim or self.d_model // self.num_heads
        return Heads(self.num_heads, self.num_kv_heads or self.num_heads, head_dim)

    def build(self, src_vocab: int, tgt_vocab: int) -> Transformer:
        """The model for vocabularies of these sizes.

        Raises:
            ValueError: tied_embeddings is "all" and the vocabularies differ.
        """
        if self.tied_embeddings == "all" and src_vocab != tgt_vocab:
            raise ValueError(
                f"tied_embeddings: all needs a shared vocabulary, these have {src_vocab} and {tgt_vocab} pieces; "
                "set tied_embeddings: target or tokenizer.shared: true"
            )
        src_position, tgt_position = self._position(self.encoder_positions), self._position(self.decoder_positions)
        tgt_table = embedding(tgt_vocab, self.d_model)
        src_table = tgt_table if self.tied_embeddings == "all" else embedding(src_vocab, self.d_model)
        output = linear(self.d_model, tgt_vocab, bias=False)
        if self.tied_embeddings != "none":
            output.weight = tgt_table.weight
        return Transformer(
            Embedding(src_table, src_position, self.dropout),
            Embedding(tgt_table, tgt_position, self.dropout),
            [self._encoder_layer(src_position) for _ in range(self.encoder_layers)],
            [self._decoder_layer(tgt_position) for _ in range(self.decoder_layers)],
            encoder_end=self.norm.final(self.d_model),
            decoder_end=self.norm.final(self.d_model),
            output=output,
        )

    def _position(self, config: PositionConfig) -> Position:
        return config.build(self.d_model, self.num_heads, self.heads.head_dim)

    def _joint(self) -> Residual:
        return self.norm.build(self.d_model, self.dropout)

    def _kernel(self, position: Position, pattern: Pattern) -> SoftmaxAttention:
        return SoftmaxAttention(position=position, pattern=pattern, dropout=self.attention_dropout)

    def _self_attention(self, position: Position, pattern: Pattern) -> SelfAttention:
        return SelfAttention(
            self.d_model, self.heads, position=position, kernel=self._kernel(position, pattern)
        )

    def _feed_forward(self) -> nn.Module:
        return self.feed_forward.build(self.d_model, self.d_ff, self.activation_dropout)

    def _encoder_layer(self, position: Position) -> EncoderLayer:
        return EncoderLayer(
            self._self_attention(position, full), self._feed_forward(), (self._joint(), self._joint())
        )

    def _decoder_layer(self, position: Position) -> DecoderLayer:
        cross = CrossAttention(self.d_model, self.heads, kernel=self._kernel(Position(), full))
        return DecoderLayer(
            self._self_attention(position, causal),
            cross,
            self._feed_forward(),
            (self._joint(), self._joint(), self._joint()),
        )
