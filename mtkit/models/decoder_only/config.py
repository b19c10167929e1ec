"""Keys of a decoder-only translation model in a recipe, and the model that they describe."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from mtkit.config import config
from mtkit.layers.config import FullAttentionConfig, SinusoidalConfig
from mtkit.layers.kinds import PositionConfig
from mtkit.layers.sizes import NumLayers
from mtkit.models.capabilities import TieMode
from mtkit.models.transformer.checks import StackChoice
from mtkit.models.transformer.config import NoSharingConfig, SharingConfig, TransformerLayerConfig, sharing_order

if TYPE_CHECKING:
    from torch import nn

    from mtkit.models.decoder_only.model import DecoderOnly


@config
class DecoderOnlyConfig(TransformerLayerConfig):
    """One Transformer stack that reads the source and continues with the target (see DecoderOnly).

    Keys have the names of those of the Transformer's decoder.
    """

    kind: Literal["decoder_only"] = "decoder_only"
    # Number of layers. Default: the layers of the Transformer's encoder and decoder together.
    decoder_layers: NumLayers = 6
    # Which layers share their weights. Default: none; sharing saves parameters and no time.
    decoder_sharing: SharingConfig = field(default_factory=NoSharingConfig)
    # Position encoding of the one stack. Default: sinusoidal, as in the paper; it works for any length.
    decoder_positions: PositionConfig = field(default_factory=SinusoidalConfig)
    # Attention mask of the source: every source token sees all of them, or the preceding ones alone. Default:
    # bidirectional, since the whole source is known.
    source_visibility: Literal["bidirectional", "causal"] = "bidirectional"
    # Matrices that are one: source, target and output (all); source and target (embeddings); target and output
    # (target); or none. Default: all, since
    # the stack reads both sides.
    tied_embeddings: TieMode = "all"

    @property
    def predicts_source(self) -> bool:  # type: ignore[override]
        """True if source states depend on preceding tokens only, so that they can predict the next source token."""
        return self.source_visibility == "causal"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._order()
        for stack in self.position_stacks():
            stack.check()

    def position_stacks(self) -> tuple[StackChoice]:
        """The one stack, which both sides share."""
        stack = StackChoice(
            side="decoder",
            attention=FullAttentionConfig(),
            positions=self.decoder_positions,
            d_model=self.d_model,
            heads=self.heads,
        )
        return (stack,)

    def max_lengths(self) -> dict[str, int]:
        """Maximum sentence length, by the key that sets it; source and target share the positions."""
        return {key: limit // 2 for key, limit in super().max_lengths().items()}

    def _order(self) -> tuple[int, ...]:
        return sharing_order("decoder_sharing", self.decoder_sharing, self.decoder_layers)

    def build(self, src_vocab: int, tgt_vocab: int) -> DecoderOnly:
        """Build the model for vocabularies of these sizes.

        Raises:
            ValueError: one table is for both sides, and their vocabularies differ.
        """
        from mtkit.layers.norms import Depth
        from mtkit.models.decoder_only.model import DecoderOnly, PrefixAttention
        from mtkit.models.embeddings import Embedding, build_embeddings
        from mtkit.models.transformer.layers import EncoderLayer, ParallelEncoderLayer, Stack

        order, causal = self._order(), self.source_visibility == "causal"
        positions = self.decoder_positions.build(self.d_model, self.heads, layers=max(order) + 1, causal=causal)
        embeddings = build_embeddings(src_vocab, tgt_vocab, self.d_model, tied=self.tied_embeddings, bias=False)
        kind = ParallelEncoderLayer if self.parallel_sublayers else EncoderLayer
        depth = Depth("decoder_only", 0, self.decoder_layers)

        def layer(index: int) -> nn.Module:
            parts = self.attention_parts(positions.layers[index], causal=causal)
            return self.build_layer(kind, PrefixAttention(FullAttentionConfig(), parts), index=index, depth=depth)

        return DecoderOnly(
            Embedding(embeddings.src, positions.embedding, self.dropout),
            Embedding(embeddings.tgt, positions.embedding, self.dropout),
            Stack(layer, order, self.layerdrop),
            final_norm=self.residual.final(self.d_model),
            output=embeddings.output,
        )
