"""Keys of an encoder-decoder Transformer in a recipe, and the model that they describe."""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from mtkit.config import config
from mtkit.layers.attention.config import AttentionConfig, FullAttentionConfig, HeadGatesConfig
from mtkit.layers.key_types import NumLayers, PositiveWidth
from mtkit.layers.positions.absolute_config import SinusoidalConfig
from mtkit.layers.positions.config import PositionConfig
from mtkit.models.capabilities import PositionStack, TieMode
from mtkit.models.transformer.attention_compatibility import HeadCounts, StackChoice
from mtkit.models.transformer.layer_config import TransformerLayerConfig
from mtkit.models.transformer.sharing import NoSharingConfig, SharingConfig, sharing_order

if TYPE_CHECKING:
    from torch import nn

    from mtkit.layers.norms.residual import Depth
    from mtkit.layers.positions.base import Position
    from mtkit.models.transformer.layers import DecoderLayer, EncoderLayer, ParallelDecoderLayer, ParallelEncoderLayer
    from mtkit.models.transformer.model import Transformer


@config
class TransformerConfig(TransformerLayerConfig):
    """Encoder-decoder Transformer (see Transformer)."""

    kind: Literal["transformer"] = "transformer"
    # Number of encoder layers. Default: the paper's 6 are for WMT.
    encoder_layers: NumLayers = 3
    # Number of decoder layers. Default: the paper's 6 are for WMT.
    decoder_layers: NumLayers = 3
    # Which encoder layers share their weights. Default: none; sharing saves parameters and no time.
    encoder_sharing: SharingConfig = field(default_factory=NoSharingConfig)
    # Which decoder layers share their weights. Default: none, as for the encoder.
    decoder_sharing: SharingConfig = field(default_factory=NoSharingConfig)
    # Self-attention of the encoder. Default: full; sentences are too short for another kind to save time.
    encoder_attention: AttentionConfig = field(default_factory=FullAttentionConfig)
    # Self-attention of the decoder. Default: full, as for the encoder.
    decoder_attention: AttentionConfig = field(default_factory=FullAttentionConfig)
    # Position encoding of the encoder. Default: sinusoidal, as in the paper; it works for any length.
    encoder_positions: PositionConfig = field(default_factory=SinusoidalConfig)
    # Position encoding of the decoder. Default: sinusoidal, as for the encoder.
    decoder_positions: PositionConfig = field(default_factory=SinusoidalConfig)
    # Matrices that are one: source, target and output (all); target and output (target, as in the paper, sec. 3.4); or
    # none. Default: all, which saves most parameters; it needs a shared vocabulary.
    tied_embeddings: TieMode = "all"
    # Whether embeddings are multiplied by sqrt(d_model). Default: true, as in the paper; false is for models of other
    # programs.
    scaled_embeddings: bool = True
    # Whether a norm follows the sum of embeddings and positions. Default: false, as in the paper; true is for models of
    # other programs (BART, mBART).
    embedding_norm: bool = False
    # Whether the output projection has a bias. Default: false, as in the paper; true is for models of other programs.
    output_bias: bool = False
    # Number of heads of each encoder layer of a model whose heads were pruned. Default: null is `num_heads` in all
    # layers.
    encoder_heads: list[PositiveWidth] | None = None
    # Number of heads of each decoder layer's self-attention, after pruning. Default: null is `num_heads` in all layers.
    decoder_heads: list[PositiveWidth] | None = None
    # Number of heads of each decoder layer's attention to the source, after pruning. Default: null is `num_heads` in
    # all layers.
    cross_heads: list[PositiveWidth] | None = None
    # Gates on the heads that training closes, for `mtkit compress --to heads`. Default: null has none; gates are for
    # pruning alone.
    head_gates: HeadGatesConfig | None = None

    has_attention_of_all_steps: ClassVar[bool] = True
    has_encoder: ClassVar[bool] = True
    has_chosen_sizes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._orders()
        for choice in self._choices():
            choice.check()
        for each in self.head_counts().values():
            each.check(num_heads=self.num_heads, num_kv_heads=self.num_kv_heads)
            if self.head_gates is not None:  # its heads could not be removed afterwards
                gated = replace(each, key="head_gates", counts=each.counts or [1] * each.layers)
                gated.check(num_heads=self.num_heads, num_kv_heads=self.num_kv_heads)

    def head_counts(self) -> dict[str, HeadCounts]:
        """Head counts of each kind of attention, by the key that sets them."""
        encoder = (self.encoder_layers, self.encoder_attention, self.encoder_positions, self.encoder_sharing)
        decoder = (self.decoder_layers, self.decoder_attention, self.decoder_positions, self.decoder_sharing)
        cross = (self.decoder_layers, None, None, self.decoder_sharing)
        return {
            "encoder_heads": HeadCounts("encoder_heads", self.encoder_heads, *encoder),
            "decoder_heads": HeadCounts("decoder_heads", self.decoder_heads, *decoder),
            "cross_heads": HeadCounts("cross_heads", self.cross_heads, *cross),
        }

    def _choices(self) -> tuple[StackChoice, StackChoice]:
        """Attention and positions of encoder and decoder."""
        encoder = StackChoice(
            attention_key="encoder_attention",
            attention=self.encoder_attention,
            positions_key="encoder_positions",
            positions=self.encoder_positions,
            heads=self.heads,
            causal=False,
        )
        decoder = StackChoice(
            attention_key="decoder_attention",
            attention=self.decoder_attention,
            positions_key="decoder_positions",
            positions=self.decoder_positions,
            heads=self.heads,
            causal=True,
        )
        return encoder, decoder

    def max_lengths(self) -> dict[str, int]:
        """Maximum sentence length in tokens, end of sentence included, by the key that sets it."""
        return {key: limit for choice in self._choices() for key, limit in choice.length_limits().items()}

    def position_stacks(self) -> tuple[PositionStack, ...]:
        """Encoder and decoder with their position encodings."""
        size = (self.d_model, self.heads)
        return (
            PositionStack("encoder", self.encoder_positions, *size, False),
            PositionStack("decoder", self.decoder_positions, *size, True),
        )

    def _orders(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Index of the layer at each depth of the encoder and of the decoder."""
        return (
            sharing_order("encoder_sharing", self.encoder_sharing, self.encoder_layers),
            sharing_order("decoder_sharing", self.decoder_sharing, self.decoder_layers),
        )

    @property
    def embedding_scale(self) -> float:
        """Factor of the token embeddings."""
        return math.sqrt(self.d_model) if self.scaled_embeddings else 1.0

    def build(self, src_vocab: int, tgt_vocab: int) -> Transformer:
        """Build the model for vocabularies of these sizes.

        Raises:
            ValueError: tied_embeddings is "all" and the vocabularies differ.
        """
        from mtkit.models.embeddings import build_embeddings
        from mtkit.models.transformer.layers import Stack
        from mtkit.models.transformer.model import Embedding, Transformer

        src_order, tgt_order = self._orders()
        src_positions = self.positions(self.encoder_positions, layers=max(src_order) + 1, causal=False)
        tgt_positions = self.positions(self.decoder_positions, layers=max(tgt_order) + 1, causal=True)
        embeddings = build_embeddings(
            src_vocab, tgt_vocab, self.d_model, tied=self.tied_embeddings, bias=self.output_bias
        )

        def embedding(table: nn.Embedding, position: Position) -> Embedding:
            norm = self.residual.norm.build(self.d_model) if self.embedding_norm else None
            return Embedding(table, position, self.dropout, scale=self.embedding_scale, norm=norm)

        return Transformer(
            embedding(embeddings.src, src_positions.embedding),
            embedding(embeddings.tgt, tgt_positions.embedding),
            Stack(lambda index: self._encoder_layer(index, src_positions.layers[index]), src_order, self.layerdrop),
            Stack(lambda index: self._decoder_layer(index, tgt_positions.layers[index]), tgt_order, self.layerdrop),
            encoder_norm=self.residual.final(self.d_model),
            decoder_norm=self.residual.final(self.d_model),
            output=embeddings.output,
        )

    def finish_layer(self, layer: nn.Module, depth: Depth) -> None:
        """See TransformerLayerConfig; with gates on the heads, if there are any."""
        super().finish_layer(layer, depth)
        if self.head_gates is not None:
            self.head_gates.gate(layer)

    def _encoder_layer(self, index: int, position: Position) -> nn.Module:
        from mtkit.layers.norms.residual import Depth
        from mtkit.models.transformer.layers import EncoderLayer, ParallelEncoderLayer

        depth = Depth("encoder", self.encoder_layers, self.decoder_layers)
        kind: type[EncoderLayer | ParallelEncoderLayer]
        kind = ParallelEncoderLayer if self.parallel_sublayers else EncoderLayer
        num_heads = self.head_counts()["encoder_heads"].of_layer(index)
        parts = self.attention_parts(position, causal=False, num_heads=num_heads)
        attention = self.encoder_attention.build(parts)
        feed_forward = self.feed_forward_layer(index)
        layer = kind(attention, feed_forward, self.residuals(depth, kind.num_residuals))
        self.finish_layer(layer, depth)
        return layer

    def _decoder_layer(self, index: int, position: Position) -> nn.Module:
        from mtkit.layers.norms.residual import Depth
        from mtkit.models.transformer.layers import DecoderLayer, ParallelDecoderLayer

        depth = Depth("decoder", self.encoder_layers, self.decoder_layers)
        kind: type[DecoderLayer | ParallelDecoderLayer]
        kind = ParallelDecoderLayer if self.parallel_sublayers else DecoderLayer
        counts = {key: each.of_layer(index) for key, each in self.head_counts().items() if key != "encoder_heads"}
        cross = self.cross_attention(counts["cross_heads"])
        num_heads = counts["decoder_heads"]
        parts = self.attention_parts(position, causal=True, num_heads=num_heads)
        attention = self.decoder_attention.build(parts)
        feed_forward = self.feed_forward_layer(index)
        layer = kind(attention, cross, feed_forward, self.residuals(depth, kind.num_residuals))
        self.finish_layer(layer, depth)
        return layer
