"""What a recipe says of a Transformer, and how it becomes one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from mtkit.layers.attention import CrossAttention, Heads, SelfAttention
from mtkit.layers.feed_forward import DenseConfig
from mtkit.layers.learned import LearnedConfig
from mtkit.layers.linear import embedding, linear
from mtkit.layers.no_position import NoPositionConfig
from mtkit.layers.pattern import Pattern, causal, full
from mtkit.layers.position import Position
from mtkit.layers.residual import PostNormConfig, PreNormConfig, Residual
from mtkit.layers.sinusoidal import SinusoidalConfig
from mtkit.layers.softmax_attention import SoftmaxAttention
from mtkit.models.transformer import Embedding, Transformer
from mtkit.models.transformer_layers import DecoderLayer, EncoderLayer

PositionConfig = Annotated[SinusoidalConfig | LearnedConfig | NoPositionConfig, Field(discriminator="kind")]
NormConfig = Annotated[PreNormConfig | PostNormConfig, Field(discriminator="kind")]
FeedForwardConfig = DenseConfig


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
