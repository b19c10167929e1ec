"""Attention to a window of the source around a place that the decoder's state foretells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from mtkit.layers.projections import linear
from mtkit.layers.recurrent.additive_attention import AdditiveConfig, ConcatConfig
from mtkit.layers.recurrent.attention import (
    Annotations,
    DotConfig,
    GeneralConfig,
    RecurrentAttention,
    Scorer,
    Weigher,
    softmax_of_visible,
)
from mtkit.layers.recurrent.deferred_weight_grad import loop_product


class LocalAttention(RecurrentAttention):
    """a_j = softmax over the window(e_j) · exp(-(j - p)² / 2σ²), p = S · sigmoid(v · tanh(W s)), σ = window / 2.

    Luong et al. 2015, eqs. 9 and 10, "local-p". https://arxiv.org/abs/1508.04025 The window holds the places j from
    p - window to p + window, which count from 0 what is there of the source, its end included; S is their number. As
    in the paper the weights do not sum to one, and p learns through the distances alone.

    Args:
        score: gives the e_j.
        d_query: width of the states s.
        window: D, places to each side.
    """

    def __init__(self, score: RecurrentAttention, d_query: int, window: int) -> None:
        super().__init__()
        self.score = score
        self.window = window
        self.query = linear(d_query, d_query, bias=False)  # W_p
        self.place = linear(d_query, 1, bias=False)  # v_p

    def keys(self, values: Tensor) -> Tensor:
        """Those of the score."""
        return self.score.keys(values)

    def scorer(self, memory: Annotations) -> Scorer:
        """That of the score."""
        return self.score.scorer(memory)

    def weigher(self, memory: Annotations) -> Weigher:
        """See RecurrentAttention; places are computed in float32 at least."""
        to_query, to_place, real = loop_product(self.query), loop_product(self.place), memory.real.unsqueeze(1)
        places = real.cumsum(-1) - 1  # [B, 1, S]
        lengths = real.sum(-1, keepdim=True)  # [B, 1, 1]

        def weigh(scores: Tensor, query: Tensor) -> Tensor:
            foretold = memory.by_sentence(to_place(torch.tanh(to_query(query))))  # [B, W, 1]
            precise = foretold.to(torch.promote_types(foretold.dtype, torch.float32))
            distance = places - lengths * precise.sigmoid()  # [B, W, S]
            weights = softmax_of_visible(scores, real & (distance.abs() <= self.window))
            return weights * torch.exp(-2 * (distance / self.window) ** 2).to(weights.dtype)

        return weigh


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
