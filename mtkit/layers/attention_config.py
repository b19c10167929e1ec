"""Every kind of self-attention, or of what may stand in its place, that a recipe can name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from mtkit.layers.attention import SelfAttention
from mtkit.layers.block_attention import BlockAttention, Sight
from mtkit.layers.constant_state_config import AverageAttentionConfig, SSRUConfig
from mtkit.layers.heads import Heads
from mtkit.layers.kernel import SelfKernel
from mtkit.layers.landmark import Landmarks
from mtkit.layers.linformer import LinformerAttention
from mtkit.layers.longformer import LongformerAttention
from mtkit.layers.pattern import Window, causal, full
from mtkit.layers.performer import PerformerAttention
from mtkit.layers.position import Position
from mtkit.layers.query_key_norm import QueryKeyNorm
from mtkit.layers.sizes import Width
from mtkit.layers.softmax_attention import SoftmaxAttention


@dataclass(frozen=True, kw_only=True)
class SelfAttentionParts:
    """What every kind of self-attention is made of."""

    d_model: int
    heads: Heads
    position: Position
    causal: bool  # a decoder's
    dropout: float  # of the attention weights
    norm: QueryKeyNorm

    def around(self, kernel: SelfKernel) -> SelfAttention:
        """Projections around a kernel."""
        return SelfAttention(self.d_model, self.heads, position=self.position, kernel=kernel, norm=self.norm)

    def window(self, width: int) -> Window:
        """`width` positions to each side that may be seen."""
        return Window(before=width, after=0 if self.causal else width)


@dataclass(frozen=True, kw_only=True)
class FullAttentionConfig:
    """Everything is visible; in a decoder, everything before (see SoftmaxAttention)."""

    kind: Literal["full"] = "full"

    def build(self, parts: SelfAttentionParts) -> SelfAttention:
        """The layer."""
        pattern = causal if parts.causal else full
        return parts.around(SoftmaxAttention(position=parts.position, pattern=pattern, dropout=parts.dropout))


@dataclass(frozen=True, kw_only=True)
class WindowAttentionConfig:
    """A sliding window (see BlockAttention)."""

    kind: Literal["window"] = "window"
    width: Annotated[int, Field(gt=0)] = 64  # positions to each side; in a decoder, before

    def build(self, parts: SelfAttentionParts) -> SelfAttention:
        """The layer."""
        sight = Sight(parts.window(self.width), Landmarks())
        return parts.around(BlockAttention(position=parts.position, sight=sight, dropout=parts.dropout))


@dataclass(frozen=True, kw_only=True)
class StridedAttentionConfig:
    """A sliding window, and beyond it the last of every `stride` positions; cheapest where stride² is the length.

    Child et al. 2019, sec. 4.2, the "fixed" columns (c = 1) with a sliding window in place of fixed blocks.
    https://arxiv.org/abs/1904.10509 . The cost is O(n·(stride + n/stride)).
    """

    kind: Literal["strided"] = "strided"
    stride: Annotated[int, Field(gt=1)] = 32  # positions between columns, and width of the window to each side

    def build(self, parts: SelfAttentionParts) -> SelfAttention:
        """The layer."""
        sight = Sight(parts.window(self.stride), Landmarks(every=self.stride))
        return parts.around(BlockAttention(position=parts.position, sight=sight, dropout=parts.dropout))


@dataclass(frozen=True, kw_only=True)
class LongformerConfig:
    """A sliding window and global tokens chosen by rule; an encoder's (see LongformerAttention)."""

    kind: Literal["longformer"] = "longformer"
    width: Annotated[int, Field(gt=0)] = 64  # positions to each side
    first: bool = True  # the first piece of a line is global
    last: bool = True  # so is its end-of-sentence piece
    every: Annotated[int, Field(gt=1)] | None = None  # and the last of each so many positions; n/every more to see
    sentence_ends: bool = False  # and each piece that ends with a mark such as `.`, where lines hold many sentences

    @property
    def landmarks(self) -> Landmarks:
        """The rule."""
        return Landmarks(first=self.first, last=self.last, every=self.every, sentence_ends=self.sentence_ends)

    def __post_init__(self) -> None:
        if not self.landmarks.exist:
            raise ValueError(
                "first: no token is global; set first, last or sentence_ends to true, every to a number, or use window"
            )

    def build(self, parts: SelfAttentionParts) -> SelfAttention:
        """The layer."""
        return LongformerAttention(
            parts.d_model,
            parts.heads,
            position=parts.position,
            sight=Sight(parts.window(self.width), self.landmarks),
            dropout=parts.dropout,
            norm=parts.norm,
        )


@dataclass(frozen=True, kw_only=True)
class LinformerConfig:
    """A fixed number of mixtures of keys; an encoder's (see LinformerAttention)."""

    kind: Literal["linformer"] = "linformer"
    mixtures: Width = 64  # k; the paper: 128 or 256 for texts of 512
    max_length: Annotated[int, Field(gt=0)] = 1024  # longest sentence, in pieces with the end of sentence

    def build(self, parts: SelfAttentionParts) -> SelfAttention:
        """The layer."""
        kernel = LinformerAttention(
            position=parts.position, max_length=self.max_length, mixtures=self.mixtures, dropout=parts.dropout
        )
        return parts.around(kernel)


@dataclass(frozen=True, kw_only=True)
class PerformerConfig:
    """Random features of the softmax kernel (see PerformerAttention)."""

    kind: Literal["performer"] = "performer"
    num_features: Width = 256  # m; about K·log K is needed, the error falls as 1/sqrt(m)

    def build(self, parts: SelfAttentionParts) -> SelfAttention:
        """The layer."""
        kernel = PerformerAttention(
            position=parts.position,
            head_dim=parts.heads.head_dim,
            num_features=self.num_features,
            causal=parts.causal,
        )
        return parts.around(kernel)


AttentionConfig = Annotated[
    FullAttentionConfig
    | WindowAttentionConfig
    | StridedAttentionConfig
    | LongformerConfig
    | LinformerConfig
    | PerformerConfig
    | SSRUConfig
    | AverageAttentionConfig,
    Field(discriminator="kind"),
]
