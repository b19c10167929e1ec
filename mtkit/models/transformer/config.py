"""What a recipe says of a Transformer, and how it becomes one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import nn

from mtkit.layers.attention import AttentionConfig
from mtkit.layers.attention.linformer import LinformerConfig
from mtkit.layers.attention.longformer import LongformerConfig
from mtkit.layers.attention.softmax import FullAttentionConfig
from mtkit.layers.norms.residual import Depth
from mtkit.layers.positions import PositionConfig
from mtkit.layers.positions.base import Position
from mtkit.layers.positions.learned import LearnedConfig
from mtkit.layers.positions.sinusoidal import SinusoidalConfig
from mtkit.layers.projections import Layers
from mtkit.layers.sentence_ends import SentenceEnds
from mtkit.models.tables import Tying, tied_tables
from mtkit.models.transformer.attention_compatibility import Choice
from mtkit.models.transformer.layer_config import BlockConfig
from mtkit.models.transformer.layers import DecoderLayer, EncoderLayer
from mtkit.models.transformer.model import Embedding, Transformer
from mtkit.models.transformer.parallel_layers import ParallelDecoderLayer, ParallelEncoderLayer
from mtkit.models.transformer.sharing import NoSharingConfig, SharingConfig, sharing_order
from mtkit.models.transformer.stack import Stack

ENCODER_LAYERS: dict[str, type[EncoderLayer | ParallelEncoderLayer]] = {
    "sequential": EncoderLayer,
    "parallel": ParallelEncoderLayer,
}


DECODER_LAYERS: dict[str, type[DecoderLayer | ParallelDecoderLayer]] = {
    "sequential": DecoderLayer,
    "parallel": ParallelDecoderLayer,
}


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BlockConfig):
    """Encoder-decoder Transformer."""

    kind: Literal["transformer"] = "transformer"
    encoder_layers: Layers = 3
    decoder_layers: Layers = 3
    encoder_sharing: SharingConfig = field(default_factory=NoSharingConfig)  # which layers are one and the same
    decoder_sharing: SharingConfig = field(default_factory=NoSharingConfig)
    encoder_attention: AttentionConfig = field(default_factory=FullAttentionConfig)
    decoder_attention: AttentionConfig = field(default_factory=FullAttentionConfig)
    encoder_positions: PositionConfig = field(default_factory=SinusoidalConfig)
    decoder_positions: PositionConfig = field(default_factory=SinusoidalConfig)
    tied_embeddings: Tying = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._orders()
        for choice in self._choices():
            choice.check()

    def _choices(self) -> tuple[Choice, Choice]:
        """What encoder and decoder see, and by which positions."""
        encoder = Choice(
            attention_key="encoder_attention",
            attention=self.encoder_attention,
            positions_key="encoder_positions",
            positions=self.encoder_positions,
            heads=self.heads,
            causal=False,
        )
        decoder = Choice(
            attention_key="decoder_attention",
            attention=self.decoder_attention,
            positions_key="decoder_positions",
            positions=self.decoder_positions,
            heads=self.heads,
            causal=True,
        )
        return encoder, decoder

    def most_pieces(self) -> dict[str, int]:
        """The longest sentence, in pieces with the end of sentence, by the key that limits it."""
        limits = {}
        for choice in self._choices():
            if isinstance(choice.positions, LearnedConfig):
                limits[f"{choice.positions_key}.max_length"] = choice.positions.reach
            if isinstance(choice.attention, LinformerConfig):
                limits[f"{choice.attention_key}.max_length"] = choice.attention.max_length
        return limits

    def _orders(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """For each place in the encoder and in the decoder, the number of the layer that stands there."""
        return (
            sharing_order("encoder_sharing", self.encoder_sharing, self.encoder_layers),
            sharing_order("decoder_sharing", self.decoder_sharing, self.decoder_layers),
        )

    def build(self, src_vocab: int, tgt_vocab: int) -> Transformer:
        """The model for vocabularies of these sizes.

        Raises:
            ValueError: tied_embeddings is "all" and the vocabularies differ.
        """
        src_order, tgt_order = self._orders()
        src_positions = self.positions(self.encoder_positions, layers=max(src_order) + 1, causal=False)
        tgt_positions = self.positions(self.decoder_positions, layers=max(tgt_order) + 1, causal=True)
        tables = tied_tables(src_vocab, tgt_vocab, self.d_model, tied=self.tied_embeddings)
        return Transformer(
            Embedding(tables.src, src_positions.embedding, self.dropout),
            Embedding(tables.tgt, tgt_positions.embedding, self.dropout),
            Stack(lambda number: self._encoder_layer(number, src_positions.layers[number]), src_order, self.layer_drop),
            Stack(lambda number: self._decoder_layer(number, tgt_positions.layers[number]), tgt_order, self.layer_drop),
            encoder_end=self.norm.final(self.d_model),
            decoder_end=self.norm.final(self.d_model),
            output=tables.output,
            sentence_ends=self._sentence_ends(src_vocab),
        )

    def _sentence_ends(self, src_vocab: int) -> SentenceEnds | None:
        attention = self.encoder_attention
        return SentenceEnds(src_vocab) if isinstance(attention, LongformerConfig) and attention.sentence_ends else None

    def _encoder_layer(self, number: int, position: Position) -> nn.Module:
        depth = Depth("encoder", self.encoder_layers, self.decoder_layers)
        kind = ENCODER_LAYERS[self.sublayers]
        attention = self.self_attention(self.encoder_attention, position, causal=False)
        feed_forward = self.feed_forward_layer(number)
        layer = kind(attention, feed_forward, self.joints(depth, kind.num_joints))
        self.norm.initialise(layer, depth)
        return layer

    def _decoder_layer(self, number: int, position: Position) -> nn.Module:
        depth = Depth("decoder", self.encoder_layers, self.decoder_layers)
        kind = DECODER_LAYERS[self.sublayers]
        cross = self.cross_attention()
        attention = self.self_attention(self.decoder_attention, position, causal=True)
        feed_forward = self.feed_forward_layer(number)
        layer = kind(attention, cross, feed_forward, self.joints(depth, kind.num_joints))
        self.norm.initialise(layer, depth)
        return layer
