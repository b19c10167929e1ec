"""Configurations of the kinds for comparison: attention, positions, mixtures of experts, gates on heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from mtkit.config import Limits, config, construct
from mtkit.layers.config import (
    AttentionConfigBase,
    DenseConfig,
    ExpertConfig,
    FeedForwardConfigBase,
    PositionConfigBase,
)
from mtkit.layers.sizes import Heads, PositiveWidth, RoutingKind

if TYPE_CHECKING:
    from torch import nn

    from mtkit.layers.positions import Position


class SlidingWindowConfigBase(AttentionConfigBase):
    """Kinds of attention within a sliding window, and to global tokens."""

    kernel: ClassVar[str] = "layers.variants.sliding_window:SlidingWindowAttention"
    needs_positions: ClassVar[bool] = True

    width: int  # number of positions to each side that a query attends to

    @property
    def global_tokens(self) -> dict[str, Any]:
        """Arguments of GlobalTokens: the tokens that every query attends to; empty for none."""
        return {}


@config
class WindowAttentionConfig(SlidingWindowConfigBase):
    """A sliding window (see SlidingWindowAttention)."""

    kind: Literal["window"] = "window"
    # Number of positions to each side that a query attends to; in a decoder, to the left alone. Default: longer than
    # nearly all sentences, so that only texts are cut.
    width: Annotated[int, Limits(gt=0)] = 64


@config
class StridedAttentionConfig(SlidingWindowConfigBase):
    """A sliding window, and beyond it the last of every `stride` positions; cheapest where stride² is the length.

    Child et al. 2019, sec. 4.2, the "fixed" columns (c = 1), with a sliding window instead of fixed blocks.
    https://arxiv.org/abs/1904.10509 . The cost is O(n · (stride + n/stride)).
    """

    kind: Literal["strided"] = "strided"
    # Distance of the positions that every query attends to, and width of the window to each side. Default: cheapest for
    # about 1,000 tokens, the square of the stride.
    stride: Annotated[int, Limits(gt=1)] = 32

    @property
    def width(self) -> int:  # type: ignore[override]
        """See SlidingWindowConfigBase."""
        return self.stride

    @property
    def global_tokens(self) -> dict[str, Any]:
        """See SlidingWindowConfigBase."""
        return {"stride": self.stride}


@config
class LongformerConfig(SlidingWindowConfigBase):
    """Sliding window and global tokens, for encoders (see LongformerAttention)."""

    kind: Literal["longformer"] = "longformer"
    builds: ClassVar[str] = "layers.variants.sliding_window:LongformerAttention"
    # Number of positions to each side that a query attends to. Default: longer than nearly all sentences, so that only
    # texts are cut.
    width: Annotated[int, Limits(gt=0)] = 64
    # Whether the first token of a line is global. Default: true, so that every token can exchange information with all
    # others by way of it.
    global_bos: bool = True
    # Whether the end-of-sentence token is global. Default: true, for the same reason as `global_bos`.
    global_eos: bool = True
    # Distance of further global positions; they are n / stride more keys for each query. Default: null has none, since
    # two global tokens cost next to nothing.
    global_stride: Annotated[int, Limits(gt=1)] | None = None

    is_causal_capable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (self.global_bos or self.global_eos or self.global_stride):
            raise ValueError(
                "global_bos: no token is global; set global_bos or global_eos to true, global_stride to a number, or "
                "use kind: window"
            )

    @property
    def global_tokens(self) -> dict[str, Any]:
        """See SlidingWindowConfigBase."""
        return {"bos": self.global_bos, "eos": self.global_eos, "stride": self.global_stride}


@config
class BinaryPartitionConfig(AttentionConfigBase):
    """Near tokens, and spans that grow with the distance (see BinaryPartitionAttention)."""

    kind: Literal["binary_partition"] = "binary_partition"
    kernel: ClassVar[str] = "layers.variants.binary_partition:BinaryPartitionAttention"
    # Number k of nodes of each level of the tree that a query attends to, to each side. Default: the paper's for
    # translation.
    span_count: Annotated[int, Limits(gt=0)] = 4

    needs_positions: ClassVar[bool] = True


@config
class LSHConfig(AttentionConfigBase):
    """Tokens of the same bucket of a locality-sensitive hash, for encoders (see LSHKernel)."""

    kind: Literal["lsh"] = "lsh"
    builds: ClassVar[str] = "layers.variants.lsh:LSHAttention"
    kernel: ClassVar[str] = "layers.variants.lsh:LSHKernel"
    # Rounds of hashing; time is proportional to it. Default: the fewest with which a missed neighbour has a second
    # chance; the paper has 1 to 8.
    num_hashes: Annotated[int, Limits(gt=0, le=16)] = 2
    # Tokens of a chunk; buckets have half of that on average. Default: that of common implementations.
    chunk_length: Annotated[int, Limits(gt=0)] = 64

    is_causal_capable: ClassVar[bool] = False
    computes_scores: ClassVar[bool] = False
    needs_positions: ClassVar[bool] = True
    needs_equal_heads: ClassVar[bool] = True


@config
class LinformerConfig(AttentionConfigBase):
    """A fixed number of projected keys, for encoders (see LinformerAttention)."""

    kind: Literal["linformer"] = "linformer"
    kernel: ClassVar[str] = "layers.variants.linear_attention:LinformerAttention"
    # Number k of keys to which those of a sentence are projected. Default: enough for sentences; the paper has 128 or
    # 256 for texts of 512 tokens.
    projected_length: PositiveWidth = 64
    # Maximum sentence length in tokens, end of sentence included. Default: far above any sentence; it costs 2·k weights
    # per position.
    max_length: Annotated[int, Limits(gt=0)] = 1024

    is_causal_capable: ClassVar[bool] = False
    computes_scores: ClassVar[bool] = False

    @property
    def length_limit(self) -> int:
        """See AttentionConfigBase."""
        return self.max_length


@config
class PerformerConfig(AttentionConfigBase):
    """Random features of the softmax kernel (see PerformerAttention)."""

    kind: Literal["performer"] = "performer"
    kernel: ClassVar[str] = "layers.variants.linear_attention:PerformerAttention"
    # Number m of random features. Default: about K·log K are needed for heads of width K = 64; the error falls as
    # 1/sqrt(m).
    num_features: PositiveWidth = 256

    computes_scores: ClassVar[bool] = False


@config
class SSRUConfig(AttentionConfigBase):
    """Simpler simple recurrent unit, for decoders (see SSRU)."""

    kind: Literal["ssru"] = "ssru"
    builds: ClassVar[str] = "layers.variants.replacements:SSRU"

    is_encoder_capable: ClassVar[bool] = False
    has_queries_and_keys: ClassVar[bool] = False
    computes_scores: ClassVar[bool] = False


@config
class AverageAttentionConfig(AttentionConfigBase):
    """Average of all preceding tokens, for decoders (see AverageAttention)."""

    kind: Literal["average"] = "average"
    builds: ClassVar[str] = "layers.variants.replacements:AverageAttention"
    # Width of a feed-forward layer on the average. Default: null has none and is faster; the paper has one.
    d_ff: PositiveWidth | None = None

    is_encoder_capable: ClassVar[bool] = False
    has_queries_and_keys: ClassVar[bool] = False
    computes_scores: ClassVar[bool] = False
    needs_positions: ClassVar[bool] = True


@config
class GatedMLPConfig(AttentionConfigBase):
    """A matrix product along the sentence that gates its input, for encoders (see GatedMLP)."""

    kind: Literal["gmlp"] = "gmlp"
    builds: ClassVar[str] = "layers.variants.replacements:GatedMLP"
    # Width before gating, an even number. Default: null is 2·d_model, which has 3/4 of the parameters of attention.
    d_inner: PositiveWidth | None = None
    # Maximum sentence length n in tokens, end of sentence included. Default: above any sentence; it costs n² weights in
    # every layer.
    max_length: Annotated[int, Limits(gt=0, le=10_000)] = 512
    # Whether the gate depends on distances (2n - 1 weights) instead of pairs of positions (n² weights). Default: false,
    # as in the paper.
    toeplitz: bool = False

    is_causal_capable: ClassVar[bool] = False
    has_queries_and_keys: ClassVar[bool] = False
    computes_scores: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.d_inner is not None and self.d_inner % 2:
            raise ValueError(f"d_inner: {self.d_inner} is odd, but one half gates the other; use an even number")

    @property
    def length_limit(self) -> int:
        """See AttentionConfigBase."""
        return self.max_length


@config
class HeadGatesConfig:
    """A gate on each attention head, closed by a penalty on open gates (see GatedProjection)."""

    # Penalty lambda in nats per token for each open head; a larger one closes more heads. Default: little beside the
    # loss of a token, so that heads close one after another.
    penalty: Annotated[float, Limits(ge=0)] = 0.01
    # Factor between a gate's weight and its log alpha. Default: gates then move faster than other weights, as the few
    # updates of a fine-tuning need.
    rate: Annotated[float, Limits(gt=0)] = 20.0

    def gate(self, model: nn.Module) -> None:
        """Put a gate on every head of the attention modules of a model."""
        from mtkit.layers.attention import CrossAttention, SelfAttention
        from mtkit.layers.variants.head_gates import GatedProjection

        for module in model.modules():
            if isinstance(module, SelfAttention | CrossAttention):
                module.out = GatedProjection(module.out, module.heads.num_heads, penalty=self.penalty, rate=self.rate)


@config
class IndexConfig(PositionConfigBase):
    """The position as a number; fails on long sentences (see Index)."""

    kind: Literal["index"] = "index"
    builds: ClassVar[str] = "layers.variants.positions:Index"

    is_recommended: ClassVar[bool] = False


@config
class RelativeIndexConfig(PositionConfigBase):
    """The position divided by the sentence's length, for encoders (see RelativeIndex)."""

    kind: Literal["index_over_length"] = "index_over_length"
    builds: ClassVar[str] = "layers.variants.positions:RelativeIndex"

    is_recommended: ClassVar[bool] = False
    needs_whole_sentence: ClassVar[bool] = True


@config
class BinaryConfig(PositionConfigBase):
    """The bits of the position (see Binary)."""

    kind: Literal["binary"] = "binary"
    builds: ClassVar[str] = "layers.variants.positions:Binary"

    is_recommended: ClassVar[bool] = False


@config
class ALiBiConfig(PositionConfigBase):
    """Linear biases (see ALiBi)."""

    kind: Literal["alibi"] = "alibi"
    builds: ClassVar[str] = "layers.variants.positions:ALiBi"

    acts_in_attention: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = True


@config
class ShawConfig(PositionConfigBase):
    """Relative position representations on keys and values (see Shaw)."""

    kind: Literal["shaw"] = "shaw"
    builds: ClassVar[str] = "layers.variants.positions:Shaw"
    # Distance beyond which all distances share a vector. Default: the paper's; it found no gain above 4.
    max_distance: Annotated[int, Limits(gt=0)] = 16

    acts_in_attention: ClassVar[bool] = True
    is_shared: ClassVar[bool] = False
    needs_scores: ClassVar[bool] = True


def _check_buckets(num_buckets: int, max_distance: int) -> None:
    if max_distance <= num_buckets // 2:
        raise ValueError(
            f"max_distance: {max_distance} leaves no logarithmic buckets; it must exceed half of num_buckets "
            f"({num_buckets})"
        )


@config
class T5BiasConfig(PositionConfigBase):
    """Bucketed bias, shared over the layers (see T5Bias)."""

    kind: Literal["t5"] = "t5"
    builds: ClassVar[str] = "layers.variants.positions:T5Bias"
    # Number of distance buckets, both directions together. Default: the paper's.
    num_buckets: Annotated[int, Limits(ge=4, multiple_of=4)] = 32
    # Distance in tokens beyond which all distances share a bucket. Default: the paper's.
    max_distance: Annotated[int, Limits(gt=0)] = 128
    # Whether products of queries and keys are divided by sqrt(head_dim). Default: false, as in the paper, with
    # Adafactor; with Adam at a large rate true trains faster.
    scaled: bool = False

    acts_in_attention: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_buckets(self.num_buckets, self.max_distance)


@config
class TransformerXLConfig(PositionConfigBase):
    """Relative encoding of Transformer-XL (see TransformerXLPosition)."""

    kind: Literal["transformer_xl"] = "transformer_xl"
    builds: ClassVar[str] = "layers.variants.positions:TransformerXLPosition"

    acts_in_attention: ClassVar[bool] = True
    is_shared: ClassVar[bool] = False
    needs_scores: ClassVar[bool] = True


@config
class DeBERTaConfig(PositionConfigBase):
    """Disentangled attention (see DeBERTaPosition)."""

    kind: Literal["deberta"] = "deberta"
    builds: ClassVar[str] = "layers.variants.positions:DeBERTaPosition"
    # Distance c beyond which all distances share a vector. Default: enough for sentences; the paper has 512, for input
    # of 512 tokens.
    max_distance: Annotated[int, Limits(gt=0)] = 64

    acts_in_attention: ClassVar[bool] = True
    is_shared: ClassVar[bool] = False
    needs_scores: ClassVar[bool] = True

    def modules(self, d_model: int, heads: Heads, *, causal: bool, count: int) -> Sequence[Position]:
        """Build one table for all layers, and its projections for each."""
        from mtkit.layers.projections import embedding

        table = embedding(2 * self.max_distance, d_model)
        return [construct(self, table, heads) for _ in range(count)]


@config
class TUPEConfig(PositionConfigBase):
    """Untied positional encoding (see TUPE)."""

    kind: Literal["tupe"] = "tupe"
    builds: ClassVar[str] = "layers.variants.positions:TUPE"
    # Number of learned positions: tokens of the longest sentence, end of sentence included. Default: far above any
    # sentence; each costs d_model weights.
    max_length: Annotated[int, Limits(gt=0)] = 1024
    # Whether a bias per distance bucket is added (TUPE-R) or not (TUPE-A). Default: true, the better one in the paper.
    relative: bool = True
    # Number of distance buckets of `relative`, both directions together. Default: T5's.
    num_buckets: Annotated[int, Limits(ge=4, multiple_of=4)] = 32
    # Distance in tokens beyond which all distances share a bucket of `relative`. Default: T5's.
    max_distance: Annotated[int, Limits(gt=0)] = 128

    acts_in_attention: ClassVar[bool] = True
    needs_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_buckets(self.num_buckets, self.max_distance)

    @property
    def length_limit(self) -> int:
        """Maximum sentence length in tokens, end of sentence included."""
        return self.max_length


@config
class MixtureOfExpertsConfig(FeedForwardConfigBase):
    """Mixture of experts instead of one feed-forward layer (see MixtureOfExperts)."""

    kind: Literal["moe"] = "moe"
    builds: ClassVar[str] = "layers.variants.mixture_of_experts:MixtureOfExperts"
    has_data_dependent_steps: ClassVar[bool] = True  # each expert receives as many tokens as the router assigns
    # Number of experts of a mixture. Default: few enough for the memory of one machine; the Switch paper went to 2,048.
    num_experts: Annotated[int, Limits(ge=2, le=10_000)] = 8
    # Rule that assigns tokens: switch takes the best expert with its probability as gate, top2 the best two with gates
    # that sum to 1. Default: switch, which costs as much as a dense layer.
    routing: RoutingKind = "switch"
    # Feed-forward layer of each expert, and of the layers without a mixture. Default: dense, as in the Switch paper.
    expert: ExpertConfig = field(default_factory=DenseConfig)
    # Distance of the layers that are mixtures; the others are one `expert`. Default: 2, the paper's.
    moe_every: Annotated[int, Limits(gt=0)] = 2
    # Largest number of tokens of an expert in training, as a multiple of an even share; the rest is dropped. Null drops
    # nothing. Default: the Switch paper's.
    capacity_factor: Annotated[float, Limits(gt=0)] | None = 1.25
    # Weight alpha of the auxiliary loss that keeps the load of the experts even. Default: the Switch paper's.
    balance_weight: Annotated[float, Limits(ge=0)] = 0.01
    # Weight of the squared log-normaliser of the router, which keeps its logits small. Default: the ST-MoE paper's.
    z_weight: Annotated[float, Limits(ge=0)] = 0.001
    # Largest relative noise of the router's input in training. Default: 0, so that training has no further randomness;
    # the Switch paper has 0.01.
    jitter: Annotated[float, Limits(ge=0, lt=1)] = 0.0

    def of_layer(self, index: int) -> FeedForwardConfigBase:
        """See FeedForwardConfigBase."""
        return self.expert if (index + 1) % self.moe_every else self
