"""Keys of a Transformer layer in a recipe, shared by the encoder-decoder and the decoder-only model."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from mtkit.config import Limits, config
from mtkit.layers.feed_forward.config import DenseConfig, FeedForwardConfig
from mtkit.layers.heads import Heads
from mtkit.layers.key_types import PositiveWidth, QKNorm
from mtkit.layers.norms.config import PreNormConfig, ResidualConfig
from mtkit.layers.positions.absolute_config import NoPositionConfig
from mtkit.layers.positions.config import PositionConfig
from mtkit.models.capabilities import ModelConfigBase

if TYPE_CHECKING:
    from torch import nn

    from mtkit.layers.attention.cross import CrossAttention
    from mtkit.layers.attention.multi_head import AttentionParts
    from mtkit.layers.norms.residual import Depth, Residual
    from mtkit.layers.positions.base import Position, StackPositions


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

    def layer_heads(self, num_heads: int | None) -> Heads:
        """Sizes of the heads of a layer with its own number of heads; None: that of all layers."""
        return self.heads if num_heads is None else replace(self.heads, num_heads=num_heads, num_kv_heads=num_heads)

    def positions(self, config: PositionConfig, *, layers: int, causal: bool) -> StackPositions:
        """Build the position encoding of a stack."""
        return config.build(self.d_model, self.heads, layers=layers, causal=causal)

    def attention_parts(self, position: Position, *, causal: bool, num_heads: int | None = None) -> AttentionParts:
        """Arguments of a layer's attention; `causal` in a decoder; `num_heads`: of this layer alone, or None."""
        from mtkit.layers.attention.multi_head import AttentionParts

        return AttentionParts(
            d_model=self.d_model,
            heads=self.layer_heads(num_heads),
            position=position,
            causal=causal,
            dropout=self.attention_dropout,
            norm=self.qk_norm,
        )

    def cross_attention(self, num_heads: int | None = None) -> CrossAttention:
        """Build the cross-attention of a decoder layer."""
        from mtkit.layers.attention.cross import CrossAttention

        position = NoPositionConfig().module(self.d_model, self.heads, causal=False)
        return CrossAttention(self.attention_parts(position, causal=False, num_heads=num_heads))

    def feed_forward_layer(self, index: int) -> nn.Module:
        """Build the feed-forward sublayer of the layer with this index, from 0."""
        return self.feed_forward.of_layer(index).build(self.d_model, self.d_ff, self.activation_dropout)

    def finish_layer(self, layer: nn.Module, depth: Depth) -> None:
        """Remove the biases of a new layer if the recipe says so, and initialise it for its depth."""
        from mtkit.layers.projections import remove_biases

        if not self.bias:
            remove_biases(layer)
        self.residual.initialise(layer, depth)

    def residuals(self, depth: Depth, count: int) -> tuple[Residual, ...]:
        """Build the residual connections of a layer's `count` sublayers."""
        return tuple(self.residual.build(self.d_model, self.dropout, depth) for _ in range(count))
