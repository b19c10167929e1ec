"""What a recipe says of a decoder-only translation model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import nn

from mtkit.layers.attention.masks import causal, full
from mtkit.layers.attention.softmax import FullAttentionConfig
from mtkit.layers.norms.residual import Depth
from mtkit.layers.positions import PositionConfig
from mtkit.layers.positions.base import Position
from mtkit.layers.positions.learned import LearnedConfig
from mtkit.layers.positions.sinusoidal import SinusoidalConfig
from mtkit.layers.projections import Layers
from mtkit.models.decoder_only.model import DecoderOnly
from mtkit.models.decoder_only.prefix_attention import PrefixAttention
from mtkit.models.tables import Tying, tied_tables
from mtkit.models.transformer.attention_compatibility import Choice
from mtkit.models.transformer.config import ENCODER_LAYERS
from mtkit.models.transformer.layer_config import BlockConfig
from mtkit.models.transformer.model import Embedding
from mtkit.models.transformer.sharing import NoSharingConfig, SharingConfig, sharing_order
from mtkit.models.transformer.stack import Stack

PATTERNS = {"causal": causal, "bidirectional": full}


@dataclass(frozen=True, kw_only=True)
class DecoderOnlyConfig(BlockConfig):
    """One Transformer stack that reads the source and goes on with the target (see DecoderOnly).

    The keys are named as those of the Transformer's decoder.
    """

    kind: Literal["decoder_only"] = "decoder_only"
    decoder_layers: Layers = 6  # as many as encoder and decoder of the Transformer together
    decoder_sharing: SharingConfig = field(default_factory=NoSharingConfig)  # which layers are one and the same
    decoder_positions: PositionConfig = field(default_factory=SinusoidalConfig)
    source_visibility: Literal["bidirectional", "causal"] = "bidirectional"  # what a piece of the source sees of it
    tied_embeddings: Tying = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._order()
        choice = Choice(
            attention_key="decoder_attention",
            attention=FullAttentionConfig(),
            positions_key="decoder_positions",
            positions=self.decoder_positions,
            heads=self.heads,
            causal=True,
        )
        choice.check()

    def most_pieces(self) -> dict[str, int]:
        """The longest sentence, in pieces with its end, by the key that limits it; both sides share the positions."""
        if not isinstance(self.decoder_positions, LearnedConfig):
            return {}
        return {"decoder_positions.max_length": self.decoder_positions.reach // 2}

    def _order(self) -> tuple[int, ...]:
        return sharing_order("decoder_sharing", self.decoder_sharing, self.decoder_layers)

    def build(self, src_vocab: int, tgt_vocab: int) -> DecoderOnly:
        """The model for vocabularies of these sizes.

        Raises:
            ValueError: tied_embeddings is "all" and the vocabularies differ.
        """
        order = self._order()
        is_causal = self.source_visibility == "causal"
        positions = self.positions(self.decoder_positions, layers=max(order) + 1, causal=is_causal)
        tables = tied_tables(src_vocab, tgt_vocab, self.d_model, tied=self.tied_embeddings)
        return DecoderOnly(
            Embedding(tables.src, positions.embedding, self.dropout),
            Embedding(tables.tgt, positions.embedding, self.dropout),
            Stack(lambda number: self._layer(number, positions.layers[number]), order, self.layer_drop),
            end=self.norm.final(self.d_model),
            output=tables.output,
        )

    def _layer(self, number: int, position: Position) -> nn.Module:
        depth = Depth("alone", 0, self.decoder_layers)
        kind = ENCODER_LAYERS[self.sublayers]
        attention = PrefixAttention(
            self.d_model,
            self.heads,
            position=position,
            pattern=PATTERNS[self.source_visibility],
            dropout=self.attention_dropout,
            norm=self.query_key_norm,
        )
        layer = kind(attention, self.feed_forward_layer(number), self.joints(depth, kind.num_joints))
        self.norm.initialise(layer, depth)
        return layer
