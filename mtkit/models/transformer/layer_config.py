"""What a recipe says of a Transformer's layers, whatever they are stacked to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from mtkit.layers.attention import AttentionConfig
from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.attention.masks import full
from mtkit.layers.attention.multi_head import QueryKeyNorm, SelfAttentionParts
from mtkit.layers.attention.softmax import SoftmaxAttention
from mtkit.layers.feed_forward import FeedForwardConfig
from mtkit.layers.feed_forward.dense import DenseConfig
from mtkit.layers.heads import Heads
from mtkit.layers.norms.deepnorm import DeepNormConfig
from mtkit.layers.norms.residual import Depth, PostNormConfig, PreNormConfig, Residual
from mtkit.layers.norms.sandwich import SandwichConfig
from mtkit.layers.positions import PositionConfig
from mtkit.layers.positions.base import Position, Positions
from mtkit.layers.projections import Width

NormConfig = Annotated[PreNormConfig | PostNormConfig | SandwichConfig | DeepNormConfig, Field(discriminator="kind")]


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """The parts of a layer. The defaults train on Multi30k (29,000 pairs) without overfitting at once."""

    d_model: Width = 256
    d_ff: Width = 1024  # 4·d_model, as in the paper
    num_heads: Width = 4
    num_kv_heads: Width | None = None  # fewer than num_heads: grouped-query; 1: multi-query
    head_dim: Width | None = None  # d_model / num_heads unless set
    query_key_norm: QueryKeyNorm = "none"  # layer or rms: bounded scores, for large rates and deep stacks
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.3  # embeddings and sublayer outputs; the paper's 0.1 is for WMT
    attention_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    activation_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    norm: NormConfig = field(default_factory=PreNormConfig)  # trains with larger rates than the paper's post-norm
    feed_forward: FeedForwardConfig = field(default_factory=DenseConfig)
    sublayers: Literal["sequential", "parallel"] = "sequential"  # parallel: side by side, one norm a layer (GPT-J)
    layer_drop: Annotated[float, Field(ge=0, lt=1)] = 0.0  # in training a layer is left out so often (see Stack)

    def __post_init__(self) -> None:
        if self.head_dim is None and self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads: {self.num_heads} does not divide d_model {self.d_model}; change one or set head_dim"
            )
        if self.num_kv_heads is not None and self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_kv_heads: {self.num_kv_heads} does not divide num_heads {self.num_heads}")
        if self.sublayers == "parallel" and self.norm.kind == "deep":
            raise ValueError(
                "sublayers: parallel does not go with norm deep, whose scales are derived for one sublayer after the "
                "other; set sublayers: sequential or another norm"
            )

    def most_pieces(self) -> dict[str, int]:
        """The longest sentence, in pieces with its end, by the key that limits it; none does unless a kind says so."""
        return {}

    def longest_target(self) -> int | None:
        """Pieces that a translation can have, with its end; None: any number."""
        return self.most_pieces().get("decoder_positions.max_length")

    @property
    def heads(self) -> Heads:
        """How the width is cut into heads."""
        head_dim = self.head_dim or self.d_model // self.num_heads
        return Heads(self.num_heads, self.num_kv_heads or self.num_heads, head_dim)

    def positions(self, config: PositionConfig, *, layers: int, causal: bool) -> Positions:
        """The position scheme of a stack."""
        return config.build(self.d_model, self.heads, layers=layers, causal=causal)

    def self_attention(self, config: AttentionConfig, position: Position, *, causal: bool) -> nn.Module:
        """Attention of a sequence to itself; `causal` in a decoder."""
        parts = SelfAttentionParts(
            d_model=self.d_model,
            heads=self.heads,
            position=position,
            causal=causal,
            dropout=self.attention_dropout,
            norm=self.query_key_norm,
        )
        return config.build(parts)

    def cross_attention(self) -> CrossAttention:
        """Attention to the source; positions play no part."""
        kernel = SoftmaxAttention(position=Position(), pattern=full, dropout=self.attention_dropout)
        return CrossAttention(self.d_model, self.heads, kernel=kernel, norm=self.query_key_norm)

    def feed_forward_layer(self, number: int) -> nn.Module:
        """What every position goes through alone in the layer of that number, from 0."""
        return self.feed_forward.build(self.d_model, self.d_ff, self.activation_dropout, layer=number)

    def joints(self, depth: Depth, count: int) -> tuple[Residual, ...]:
        """The connections of a layer's sublayers to the residual stream."""
        return tuple(self.norm.build(self.d_model, self.dropout, depth) for _ in range(count))
