"""What a recipe says of a Transformer, and how it becomes one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from mtkit.layers.depth import Depth
from mtkit.layers.linear import embedding, linear
from mtkit.layers.pattern import causal, full
from mtkit.layers.position import Position
from mtkit.layers.sinusoidal import SinusoidalConfig
from mtkit.models.block_config import BlockConfig, PositionConfig
from mtkit.models.transformer import Embedding, Transformer
from mtkit.models.transformer_layers import DecoderLayer, EncoderLayer


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BlockConfig):
    """Encoder-decoder Transformer."""

    kind: Literal["transformer"] = "transformer"
    encoder_layers: Annotated[int, Field(gt=0)] = 3
    decoder_layers: Annotated[int, Field(gt=0)] = 3
    encoder_positions: PositionConfig = field(default_factory=SinusoidalConfig)
    decoder_positions: PositionConfig = field(default_factory=SinusoidalConfig)
    tied_embeddings: Literal["all", "target", "none"] = "all"  # all: source, target, softmax; target: the last two

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
        src_position, tgt_position = self.position(self.encoder_positions), self.position(self.decoder_positions)
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

    def _encoder_layer(self, position: Position) -> EncoderLayer:
        depth = Depth("encoder", self.encoder_layers, self.decoder_layers)
        layer = EncoderLayer(
            self.self_attention(position, full),
            self.feed_forward_layer(),
            (self.joint(depth), self.joint(depth)),
        )
        self.norm.initialise(layer, depth)
        return layer

    def _decoder_layer(self, position: Position) -> DecoderLayer:
        depth = Depth("decoder", self.encoder_layers, self.decoder_layers)
        cross = self.cross_attention()
        layer = DecoderLayer(
            self.self_attention(position, causal),
            cross,
            self.feed_forward_layer(),
            (self.joint(depth), self.joint(depth), self.joint(depth)),
        )
        self.norm.initialise(layer, depth)
        return layer
