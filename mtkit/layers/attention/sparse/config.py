"""Configurations of sparse self-attention: each query attends to selected keys."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from mtkit.config import Limits, config
from mtkit.layers.attention.capabilities import AttentionConfigBase


class SlidingWindowConfigBase(AttentionConfigBase):
    """Kinds of attention within a sliding window, and to global tokens."""

    needs_positions: ClassVar[bool] = True

    @property
    def window_width(self) -> int:
        """Number of positions to each side that a query attends to."""
        raise NotImplementedError

    @property
    def global_tokens(self) -> dict[str, Any]:
        """Arguments of GlobalTokens: the tokens that every query attends to; empty for none."""
        return {}


@config
class WindowAttentionConfig(SlidingWindowConfigBase):
    """A sliding window (see SlidingWindowAttention)."""

    kind: Literal["window"] = "window"
    kernel: ClassVar[str] = "layers.attention.sparse.sliding_window:SlidingWindowAttention"
    # Number of positions to each side that a query attends to; in a decoder, to the left alone. Default: longer than
    # nearly all sentences, so that only texts are cut.
    width: Annotated[int, Limits(gt=0)] = 64

    @property
    def window_width(self) -> int:
        """See SlidingWindowConfigBase."""
        return self.width


@config
class StridedAttentionConfig(SlidingWindowConfigBase):
    """A sliding window, and beyond it the last of every `stride` positions; cheapest where stride² is the length.

    Child et al. 2019, sec. 4.2, the "fixed" columns (c = 1), with a sliding window instead of fixed blocks.
    https://arxiv.org/abs/1904.10509 . The cost is O(n · (stride + n/stride)).
    """

    kind: Literal["strided"] = "strided"
    kernel: ClassVar[str] = "layers.attention.sparse.sliding_window:SlidingWindowAttention"
    # Distance of the positions that every query attends to, and width of the window to each side. Default: cheapest for
    # about 1,000 tokens, the square of the stride.
    stride: Annotated[int, Limits(gt=1)] = 32

    @property
    def window_width(self) -> int:
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
    builds: ClassVar[str] = "layers.attention.sparse.longformer:LongformerAttention"
    kernel: ClassVar[str] = "layers.attention.sparse.sliding_window:SlidingWindowAttention"
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
    def window_width(self) -> int:
        """See SlidingWindowConfigBase."""
        return self.width

    @property
    def global_tokens(self) -> dict[str, Any]:
        """See SlidingWindowConfigBase."""
        return {"bos": self.global_bos, "eos": self.global_eos, "stride": self.global_stride}


@config
class BinaryPartitionConfig(AttentionConfigBase):
    """Near tokens, and spans that grow with the distance (see BinaryPartitionAttention)."""

    kind: Literal["binary_partition"] = "binary_partition"
    kernel: ClassVar[str] = "layers.attention.sparse.binary_partition:BinaryPartitionAttention"
    # Number k of nodes of each level of the tree that a query attends to, to each side. Default: the paper's for
    # translation.
    span_count: Annotated[int, Limits(gt=0)] = 4

    needs_positions: ClassVar[bool] = True


@config
class LSHConfig(AttentionConfigBase):
    """Tokens of the same bucket of a locality-sensitive hash, for encoders (see LSHKernel)."""

    kind: Literal["lsh"] = "lsh"
    builds: ClassVar[str] = "layers.attention.sparse.lsh:LSHAttention"
    kernel: ClassVar[str] = "layers.attention.sparse.lsh:LSHKernel"
    # Rounds of hashing; time is proportional to it. Default: the fewest with which a missed neighbour has a second
    # chance; the paper has 1 to 8.
    num_hashes: Annotated[int, Limits(gt=0, le=16)] = 2
    # Tokens of a chunk; buckets have half of that on average. Default: that of common implementations.
    chunk_length: Annotated[int, Limits(gt=0)] = 64

    is_causal_capable: ClassVar[bool] = False
    computes_scores: ClassVar[bool] = False
    needs_positions: ClassVar[bool] = True
    needs_equal_heads: ClassVar[bool] = True
