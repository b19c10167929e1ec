"""Every score that the attention of a recurrent decoder can be built with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from mtkit.layers.additive_attention import AdditiveAttention
from mtkit.layers.local_attention import LocalAttention
from mtkit.layers.product_attention import DotAttention, GeneralAttention
from mtkit.layers.recurrent_attention import RecurrentAttention


@dataclass(frozen=True, kw_only=True)
class AdditiveConfig:
    """A small network with a bias, as in Bahdanau et al. 2015 (see AdditiveAttention)."""

    kind: Literal["additive"] = "additive"

    def build(self, d_query: int, d_memory: int, d_attention: int) -> RecurrentAttention:
        """The attention of states [rows, d_query] to annotations [B, S, d_memory]."""
        return AdditiveAttention(d_query, d_memory, d_attention)


@dataclass(frozen=True, kw_only=True)
class ConcatConfig:
    """The same network without the bias, as in Luong et al. 2015 (see AdditiveAttention)."""

    kind: Literal["concat"] = "concat"

    def build(self, d_query: int, d_memory: int, d_attention: int) -> RecurrentAttention:
        """The attention of states [rows, d_query] to annotations [B, S, d_memory]."""
        return AdditiveAttention(d_query, d_memory, d_attention, bias=False)


@dataclass(frozen=True, kw_only=True)
class GeneralConfig:
    """An inner product through a matrix (see GeneralAttention)."""

    kind: Literal["general"] = "general"

    def build(self, d_query: int, d_memory: int, d_attention: int) -> RecurrentAttention:
        """The attention of states [rows, d_query] to annotations [B, S, d_memory]; d_attention is not needed."""
        return GeneralAttention(d_query, d_memory)


@dataclass(frozen=True, kw_only=True)
class DotConfig:
    """An inner product (see DotAttention)."""

    kind: Literal["dot"] = "dot"

    def build(self, d_query: int, d_memory: int, d_attention: int) -> RecurrentAttention:
        """The attention of states [rows, d_query] to annotations [B, S, d_memory]; d_attention is not needed.

        Raises:
            ValueError: the widths differ.
        """
        if d_query != d_memory:
            raise ValueError(f"dot attention of states of width {d_query} to annotations of width {d_memory}")
        return DotAttention()


ScoreConfig = Annotated[AdditiveConfig | ConcatConfig | GeneralConfig | DotConfig, Field(discriminator="kind")]


@dataclass(frozen=True, kw_only=True)
class LocalConfig:
    """A window of the source around a place that the state foretells (see LocalAttention)."""

    kind: Literal["local"] = "local"
    score: ScoreConfig = field(default_factory=GeneralConfig)  # the paper's best
    window: Annotated[int, Field(gt=0)] = 10  # places to each side; the paper's

    def build(self, d_query: int, d_memory: int, d_attention: int) -> RecurrentAttention:
        """The attention of states [rows, d_query] to annotations [B, S, d_memory].

        Raises:
            ValueError: as that of the score.
        """
        return LocalAttention(self.score.build(d_query, d_memory, d_attention), d_query, self.window)


RecurrentAttentionConfig = Annotated[
    AdditiveConfig | ConcatConfig | GeneralConfig | DotConfig | LocalConfig, Field(discriminator="kind")
]
