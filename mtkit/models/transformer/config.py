"""Keys of Transformer models in a recipe, and the encoder-decoder model that they describe."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from mtkit.config import Limits, config
from mtkit.layers.config import (
    DenseConfig,
    FullAttentionConfig,
    NoNormConfig,
    NoPositionConfig,
    PreNormConfig,
    ResidualConfig,
    SinusoidalConfig,
)
from mtkit.layers.kinds import AttentionConfig, FeedForwardConfig, PositionConfig
from mtkit.layers.sizes import Heads, Index, NumLayers, PositiveWidth, QKNorm, alignment_layer
from mtkit.layers.variants.config import HeadGatesConfig
from mtkit.models.capabilities import ModelConfigBase, TieMode
from mtkit.models.transformer.checks import HeadCounts, StackChoice

if TYPE_CHECKING:
    from torch import nn

    from mtkit.layers.attention import AttentionParts
    from mtkit.layers.norms import Depth
    from mtkit.layers.positions import Position
    from mtkit.models.transformer.model import Transformer


@config
class NoSharingConfig:
    """No sharing: every layer has its own weights."""

    kind: Literal["none"] = "none"
    shares_layers: ClassVar[bool] = False

    def order(self, layers: int) -> tuple[int, ...]:
        """Index of the distinct layer at each depth of the stack."""
        return tuple(range(layers))


@config
class AllSharedConfig:
    """One layer, applied at every depth.

    Universal Transformer without halting (Dehghani et al. 2019, https://arxiv.org/abs/1807.03819); ALBERT (Lan et al.
    2020, https://arxiv.org/abs/1909.11942).
    """

    kind: Literal["all"] = "all"
    shares_layers: ClassVar[bool] = True

    def order(self, layers: int) -> tuple[int, ...]:
        """See NoSharingConfig."""
        return (0,) * layers


@config
class SequenceConfig:
    """1 1 2 2 3 3. Takase & Kiyono 2021, "Sequence", fig. 1. https://arxiv.org/abs/2104.06022"""

    kind: Literal["sequence"] = "sequence"
    shares_layers: ClassVar[bool] = True
    # Number of layers that have weights of their own.
    distinct: Annotated[int, Limits(gt=0)]

    def order(self, layers: int) -> tuple[int, ...]:
        """See NoSharingConfig.

        Raises:
            ValueError: the stack has fewer layers than distinct ones.
        """
        _check(self.distinct, layers)
        return tuple(i * self.distinct // layers for i in range(layers))


@config
class CycleConfig:
    """1 2 3 1 2 3. Takase & Kiyono 2021, "Cycle", fig. 1."""

    kind: Literal["cycle"] = "cycle"
    shares_layers: ClassVar[bool] = True
    # Number of layers that have weights of their own.
    distinct: Annotated[int, Limits(gt=0)]

    def order(self, layers: int) -> tuple[int, ...]:
        """See SequenceConfig."""
        _check(self.distinct, layers)
        return tuple(i % self.distinct for i in range(layers))


@config
class ReversedCycleConfig:
    """1 2 3 3 2 1: the last cycle is reversed. Takase & Kiyono 2021, "Cycle (rev)", their best."""

    kind: Literal["cycle_reversed"] = "cycle_reversed"
    shares_layers: ClassVar[bool] = True
    # Number of layers that have weights of their own.
    distinct: Annotated[int, Limits(gt=0)]

    def order(self, layers: int) -> tuple[int, ...]:
        """See SequenceConfig."""
        _check(self.distinct, layers)
        last_cycle = self.distinct * (-(-layers // self.distinct) - 1)  # depth at which it starts
        forwards = tuple(i % self.distinct for i in range(last_cycle or layers))
        backwards = tuple(self.distinct - 1 - i % self.distinct for i in range(last_cycle, layers))
        return forwards + backwards if last_cycle else forwards


@config
class SandwichSharingConfig:
    """1 2 2 2 3: all but the first and the last layer share. Reid et al. 2021, https://arxiv.org/abs/2101.00234"""

    kind: Literal["sandwich"] = "sandwich"
    shares_layers: ClassVar[bool] = True

    def order(self, layers: int) -> tuple[int, ...]:
        """See NoSharingConfig."""
        return tuple(0 if i == 0 else 1 if i < layers - 1 else min(2, layers - 1) for i in range(layers))


SharingConfig = (
    NoSharingConfig | AllSharedConfig | SequenceConfig | CycleConfig | ReversedCycleConfig | SandwichSharingConfig
)


def sharing_order(key: str, sharing: SharingConfig, layers: int) -> tuple[int, ...]:
    """Index of the distinct layer at each depth of a stack.

    Raises:
        ValueError: the number of layers does not fit; the message begins with `key`, which chose the sharing.
    """
    try:
        return sharing.order(layers)
    except ValueError as error:
        raise ValueError(f"{key}.{error}") from error


def _check(distinct: int, layers: int) -> None:
    if distinct > layers:
        raise ValueError(f"distinct: {distinct} layers are more than the {layers} of the stack; lower it or add layers")


@config
class TransformerLayerConfig(ModelConfigBase):
    """A Transformer layer. The defaults train on Multi30k (29,000 pairs) without early overfitting."""

    # Width of embeddings and layers. Default: the paper's 512 overfits 29,000 pairs.
    d_model: PositiveWidth = 256
    # Width of the feed-forward layers. Default: 4·d_model, as in the paper.
    d_ff: PositiveWidth = 1024
    # Number of attention heads. Default: heads have width 64, as in the paper.
    num_heads: PositiveWidth = 4
    # Number of heads of keys and values; fewer than `num_heads` is grouped-query attention, 1 multi-query attention.
    # Default: null is `num_heads`; fewer save memory in long texts.
    num_kv_heads: PositiveWidth | None = None
    # Width d_k of a head's queries and keys. Default: null is d_model / num_heads.
    head_dim: PositiveWidth | None = None
    # Width d_v of a head's values. Default: null is `head_dim`.
    value_head_dim: PositiveWidth | None = None
    # Norm of queries and keys, which bounds the scores. Default: none, as in the paper; layer or rms helps with large
    # learning rates and deep stacks.
    qk_norm: QKNorm = "none"
    # Dropout probability of embeddings and sublayer outputs. Default: the paper's 0.1 is for WMT.
    dropout: Annotated[float, Limits(ge=0, lt=1)] = 0.3
    # Dropout probability of the attention weights. Default: 0, as in the paper.
    attention_dropout: Annotated[float, Limits(ge=0, lt=1)] = 0.0
    # Dropout probability inside feed-forward layers. Default: 0, as in the paper.
    activation_dropout: Annotated[float, Limits(ge=0, lt=1)] = 0.0
    # Whether products of queries and keys are divided by sqrt(head_dim). Default: true, as in the paper; false shows
    # what the scale contributes.
    scaled_attention: bool = True
    # Whether the linear layers of attention and feed-forward have biases. Default: true, as in the paper; T5, PaLM and
    # Llama have none.
    bias: bool = True
    # Residual connection and norm of each sublayer. Default: pre_norm, which is stable at larger learning rates than
    # post_norm.
    residual: ResidualConfig = field(default_factory=PreNormConfig)
    # Feed-forward sublayer. Default: dense, as in the paper.
    feed_forward: FeedForwardConfig = field(default_factory=DenseConfig)
    # Whether attention and feed-forward run in parallel, with one norm per layer (GPT-J). Default: false, as in the
    # paper.
    parallel_sublayers: bool = False
    # Probability that an update of training skips a layer (LayerDrop). Default: 0; it regularises deep stacks alone.
    layerdrop: Annotated[float, Limits(ge=0, lt=1)] = 0.0

    has_attention: ClassVar[bool] = True  # over the source
    has_low_rank_updates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.head_dim is None and self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads: {self.num_heads} does not divide d_model {self.d_model}; change one or set head_dim"
            )
        if self.num_kv_heads is not None and self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_kv_heads: {self.num_kv_heads} does not divide num_heads {self.num_heads}")
        if self.parallel_sublayers and self.residual.needs_sequential_sublayers:
            raise ValueError(
                f"parallel_sublayers: residual.kind {self.residual.kind} is derived for sequential sublayers; set "
                "parallel_sublayers: false or another residual"
            )

    @property
    def has_data_dependent_steps(self) -> bool:  # type: ignore[override]
        """True if the work of a layer depends on the data: an expert receives any number of tokens."""
        return self.feed_forward.has_data_dependent_steps

    @property
    def skips_layers(self) -> bool:  # type: ignore[override]
        """True if training skips layers at random (LayerDrop)."""
        return self.layerdrop > 0

    def max_target_length(self) -> int | None:
        """Maximum translation length in tokens, end of sentence included; None if unlimited."""
        return self.max_lengths().get("decoder_positions.max_length")

    @property
    def heads(self) -> Heads:
        """Sizes of the attention heads."""
        head_dim = self.head_dim or self.d_model // self.num_heads
        num_kv_heads = self.num_kv_heads or self.num_heads
        return Heads(self.num_heads, num_kv_heads, head_dim, self.value_head_dim, self.scaled_attention)

    def max_lengths(self) -> dict[str, int]:
        """Maximum sentence length in tokens, end of sentence included, by the key that sets it."""
        return {key: limit for stack in self.position_stacks() for key, limit in stack.length_limits().items()}

    @abstractmethod
    def position_stacks(self) -> tuple[StackChoice, ...]:
        """Stacks with their attention and position encodings."""

    def attention_parts(self, position: Position, *, causal: bool, num_heads: int | None = None) -> AttentionParts:
        """Arguments of a layer's attention; `causal` in a decoder; `num_heads`: of this layer alone, or None."""
        from mtkit.layers.attention import AttentionParts

        heads = self.heads
        if num_heads is not None:
            heads = replace(heads, num_heads=num_heads, num_kv_heads=num_heads)
        return AttentionParts(
            d_model=self.d_model,
            heads=heads,
            position=position,
            causal=causal,
            dropout=self.attention_dropout,
            norm=self.qk_norm,
        )

    def build_layer(self, kind: type[Any], *attention: nn.Module, index: int, depth: Depth) -> nn.Module:
        """Build the layer with this index, from 0, around its attention sublayers."""
        from torch import nn

        feed_forward = self.feed_forward.of_layer(index).build(self.d_model, self.d_ff, self.activation_dropout)
        residuals = tuple(self.residual.build(self.d_model, self.dropout, depth) for _ in range(kind.num_residuals))
        layer: nn.Module = kind(*attention, feed_forward, residuals)
        if not self.bias:  # norms keep theirs
            for module in layer.modules():
                if isinstance(module, nn.Linear):
                    module.bias = None  # type: ignore[assignment]
        self.residual.initialise(layer, depth)
        return layer


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
    # Matrices that are one: source, target and output (all); source and target (embeddings); target and output (target,
    # as in the paper, sec. 3.4); or none. Default: all, which saves most parameters; it needs a shared vocabulary.
    tied_embeddings: TieMode = "all"
    # Whether embeddings are multiplied by sqrt(d_model). Default: true, as in the paper; false is for models of other
    # programs.
    scaled_embeddings: bool = True
    # Whether decoder states are divided by sqrt(d_model) before the output. Default: false, as in the paper; true is of
    # models of other programs (T5 whose output projection is its embeddings).
    scaled_output: bool = False
    # Whether a norm follows the sum of embeddings and positions. Default: false, as in the paper; true is for models of
    # other programs (BART, mBART).
    embedding_norm: bool = False
    # Whether the output projection has a bias. Default: false, as in the paper; true is for models of other programs.
    output_bias: bool = False
    # Width of the decoder's feed-forward layers. Default: null is `d_ff`; another is for models of other programs.
    decoder_d_ff: PositiveWidth | None = None
    # Number of heads of the decoder's attention. Default: null is `num_heads`; another is for models of other programs.
    decoder_num_heads: PositiveWidth | None = None
    # Number of heads of each encoder layer of a model whose heads were pruned. Default: null is `num_heads` in all
    # layers.
    encoder_heads: list[PositiveWidth] | None = None
    # Number of heads of each decoder layer's self-attention, after pruning. Default: null is `num_heads` in all layers.
    decoder_heads: list[PositiveWidth] | None = None
    # Number of heads of each decoder layer's attention to the source, after pruning. Default: null is `num_heads` in
    # all layers.
    cross_heads: list[PositiveWidth] | None = None
    # Decoder layer and head, counted from 0, whose attention over the source aligns words. Default: null is the mean of
    # the heads of the last layer but one; a head is for imported models that learned alignments with it.
    alignment_head: list[Index] | None = None
    # Gates on the heads that training closes, for `mtkit compress --to heads`. Default: null has none; gates are for
    # pruning alone.
    head_gates: HeadGatesConfig | None = None

    has_attention_of_all_steps: ClassVar[bool] = True
    has_encoder: ClassVar[bool] = True
    has_chosen_sizes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._orders()
        for stack in self.position_stacks():
            stack.check()
        if self.scaled_output and (self.residual.ends_with_norm or isinstance(self.residual.norm, NoNormConfig)):
            raise ValueError("scaled_output: no norm follows the last layer; set it to false, or residual to pre_norm")
        for key, each in self.head_counts().items():
            num_heads = self.num_heads if key == "encoder_heads" else self.decoder_side().num_heads
            each.check(key, num_heads=num_heads, num_kv_heads=self.num_kv_heads)
            if self.head_gates is not None:  # its heads could not be removed afterwards
                gated = replace(each, counts=each.counts or [1] * each.layers)
                gated.check("head_gates", num_heads=num_heads, num_kv_heads=self.num_kv_heads)
        layer, head = self.alignment
        if head is not None and (layer >= self.decoder_layers or head >= self._cross_heads_of(layer)):
            raise ValueError(f"alignment_head: there is no head {head} of decoder layer {layer}, counted from 0")

    @property
    def alignment(self) -> tuple[int, int | None]:
        """The decoder layer whose attention over the source aligns words, and its head; None is the mean of all."""
        if self.alignment_head is None:
            return alignment_layer(self.decoder_layers), None
        if len(self.alignment_head) != 2:
            raise ValueError(f"alignment_head: {self.alignment_head} is not a layer and a head, such as [5, 0]")
        return self.alignment_head[0], self.alignment_head[1]

    def _cross_heads_of(self, layer: int) -> int:
        return self.head_counts()["cross_heads"].of_layer(layer) or self.decoder_side().num_heads

    def decoder_side(self) -> TransformerConfig:
        """The configuration whose `d_ff` and `num_heads` are those of the decoder."""
        if self.decoder_d_ff is None and self.decoder_num_heads is None:
            return self
        sizes = {"d_ff": self.decoder_d_ff or self.d_ff, "num_heads": self.decoder_num_heads or self.num_heads}
        unset = dict.fromkeys(("decoder_d_ff", "decoder_num_heads", "encoder_heads"))
        return replace(self, **sizes, **unset)  # type: ignore[arg-type]

    def head_counts(self) -> dict[str, HeadCounts]:
        """Head counts of each kind of attention, by the key that sets them."""
        encoder = (self.encoder_layers, self.encoder_attention, self.encoder_positions, self.encoder_sharing)
        decoder = (self.decoder_layers, self.decoder_attention, self.decoder_positions, self.decoder_sharing)
        cross = (self.decoder_layers, None, None, self.decoder_sharing)
        return {
            "encoder_heads": HeadCounts(self.encoder_heads, *encoder),
            "decoder_heads": HeadCounts(self.decoder_heads, *decoder),
            "cross_heads": HeadCounts(self.cross_heads, *cross),
        }

    def position_stacks(self) -> tuple[StackChoice, StackChoice]:
        """Encoder and decoder."""
        encoder = StackChoice(
            side="encoder",
            attention=self.encoder_attention,
            positions=self.encoder_positions,
            d_model=self.d_model,
            heads=self.heads,
        )
        decoder = replace(
            encoder,
            side="decoder",
            attention=self.decoder_attention,
            positions=self.decoder_positions,
            heads=self.decoder_side().heads,
        )
        return encoder, decoder

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

    @property
    def output_scale(self) -> float:
        """Factor of the decoder states behind their last norm."""
        return 1 / math.sqrt(self.d_model) if self.scaled_output else 1.0

    def build(self, src_vocab: int, tgt_vocab: int) -> Transformer:
        """Build the model for vocabularies of these sizes.

        Raises:
            ValueError: one table is for both sides, and their vocabularies differ.
        """
        from mtkit.models.embeddings import Embedding, build_embeddings
        from mtkit.models.transformer.layers import Stack
        from mtkit.models.transformer.model import Transformer

        src_order, tgt_order = self._orders()
        src_positions, tgt_positions = (
            stack.positions.build(self.d_model, stack.heads, layers=max(order) + 1, causal=stack.is_causal)
            for stack, order in zip(self.position_stacks(), (src_order, tgt_order), strict=True)
        )
        embeddings = build_embeddings(
            src_vocab, tgt_vocab, self.d_model, tied=self.tied_embeddings, bias=self.output_bias
        )

        def embedding(table: nn.Embedding, position: Position) -> Embedding:
            norm = self.residual.norm.build(self.d_model) if self.embedding_norm else None
            return Embedding(table, position, self.dropout, scale=self.embedding_scale, norm=norm)

        model = Transformer(
            embedding(embeddings.src, src_positions.embedding),
            embedding(embeddings.tgt, tgt_positions.embedding),
            Stack(lambda index: self._encoder_layer(index, src_positions.layers[index]), src_order, self.layerdrop),
            Stack(lambda index: self._decoder_layer(index, tgt_positions.layers[index]), tgt_order, self.layerdrop),
            encoder_norm=self.residual.final(self.d_model),
            decoder_norm=self.residual.final(self.d_model),
            output=embeddings.output,
            output_scale=self.output_scale,
            alignment=self.alignment,
        )
        if self.head_gates is not None:
            self.head_gates.gate(model)
        return model

    def _encoder_layer(self, index: int, position: Position) -> nn.Module:
        from mtkit.layers.norms import Depth
        from mtkit.models.transformer.layers import EncoderLayer, ParallelEncoderLayer

        num_heads = self.head_counts()["encoder_heads"].of_layer(index)
        attention = self.encoder_attention.build(self.attention_parts(position, causal=False, num_heads=num_heads))
        kind = ParallelEncoderLayer if self.parallel_sublayers else EncoderLayer
        depth = Depth("encoder", self.encoder_layers, self.decoder_layers)
        return self.build_layer(kind, attention, index=index, depth=depth)

    def _decoder_layer(self, index: int, position: Position) -> nn.Module:
        from mtkit.layers.attention import CrossAttention
        from mtkit.layers.norms import Depth
        from mtkit.models.transformer.layers import DecoderLayer, ParallelDecoderLayer

        counts, side = self.head_counts(), self.decoder_side()
        cross_heads, num_heads = counts["cross_heads"].of_layer(index), counts["decoder_heads"].of_layer(index)
        no_position = NoPositionConfig().module(self.d_model, side.heads, causal=False)
        cross = CrossAttention(side.attention_parts(no_position, causal=False, num_heads=cross_heads))
        attention = self.decoder_attention.build(side.attention_parts(position, causal=True, num_heads=num_heads))
        kind = ParallelDecoderLayer if self.parallel_sublayers else DecoderLayer
        depth = Depth("decoder", self.encoder_layers, self.decoder_layers)
        return side.build_layer(kind, attention, cross, index=index, depth=depth)
