"""Configurations of self-attention, and the union of kinds that a recipe can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from mtkit.config import Limits, config
from mtkit.layers.attention.capabilities import AttentionConfigBase
from mtkit.layers.attention.sparse.config import (
    BinaryPartitionConfig,
    LongformerConfig,
    LSHConfig,
    StridedAttentionConfig,
    WindowAttentionConfig,
)
from mtkit.layers.key_types import PositiveWidth

if TYPE_CHECKING:
    from torch import nn


@config
class FullAttentionConfig(AttentionConfigBase):
    """Attention to all tokens; in a decoder, to all preceding ones (see SoftmaxAttention)."""

    kind: Literal["full"] = "full"
    kernel: ClassVar[str] = "layers.attention.softmax:SoftmaxAttention"

    attends_to_all: ClassVar[bool] = True


@config
class LinformerConfig(AttentionConfigBase):
    """A fixed number of projected keys, for encoders (see LinformerAttention)."""

    kind: Literal["linformer"] = "linformer"
    kernel: ClassVar[str] = "layers.attention.linear:LinformerAttention"
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
    kernel: ClassVar[str] = "layers.attention.linear:PerformerAttention"
    # Number m of random features. Default: about K·log K are needed for heads of width K = 64; the error falls as
    # 1/sqrt(m).
    num_features: PositiveWidth = 256

    computes_scores: ClassVar[bool] = False


@config
class SSRUConfig(AttentionConfigBase):
    """Simpler simple recurrent unit, for decoders (see SSRU)."""

    kind: Literal["ssru"] = "ssru"
    builds: ClassVar[str] = "layers.attention.replacements:SSRU"

    is_encoder_capable: ClassVar[bool] = False
    has_queries_and_keys: ClassVar[bool] = False
    computes_scores: ClassVar[bool] = False


@config
class AverageAttentionConfig(AttentionConfigBase):
    """Average of all preceding tokens, for decoders (see AverageAttention)."""

    kind: Literal["average"] = "average"
    builds: ClassVar[str] = "layers.attention.replacements:AverageAttention"
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
    builds: ClassVar[str] = "layers.attention.replacements:GatedMLP"
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


AttentionConfig = (
    FullAttentionConfig
    | WindowAttentionConfig
    | StridedAttentionConfig
    | LongformerConfig
    | BinaryPartitionConfig
    | LSHConfig
    | LinformerConfig
    | PerformerConfig
    | SSRUConfig
    | AverageAttentionConfig
    | GatedMLPConfig
)


@config
class HeadGatesConfig:
    """A gate on each attention head, closed by a penalty on open gates (see GatedProjection)."""

    # Penalty lambda in nats per token for each open head; a larger one closes more heads. Default: little beside the
    # loss of a token, so that heads close one after another.
    penalty: Annotated[float, Limits(ge=0)] = 0.01
    # Factor between a gate's weight and its log alpha. Default: gates then move faster than other weights, as the few
    # updates of a fine-tuning need.
    rate: Annotated[float, Limits(gt=0)] = 20.0

    def gate(self, layer: nn.Module) -> None:
        """Put a gate on every head of the attention modules in a layer."""
        from mtkit.layers.attention.cross import CrossAttention
        from mtkit.layers.attention.head_gates import GatedProjection
        from mtkit.layers.attention.multi_head import SelfAttention

        for module in layer.modules():
            if isinstance(module, SelfAttention | CrossAttention):
                module.out = GatedProjection(module.out, module.heads.num_heads, penalty=self.penalty, rate=self.rate)
