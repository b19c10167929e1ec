"""Attention of a recurrent decoder: one head over the annotations of the source, scored by whatever kind is chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from mtkit.layers.cache.state import Rows
from mtkit.layers.precision import compute_dtype
from mtkit.layers.projections import linear
from mtkit.layers.recurrent.deferred_weight_grad import loop_batched_product

Scorer = Callable[[Tensor], Tensor]  # queries [rows, D] -> scores [B, W, S]


Weigher = Callable[[Tensor, Tensor], Tensor]  # scores [B, W, S] and their queries [rows, D] -> weights [B, W, S]


Attend = Callable[[Tensor], tuple[Tensor, Tensor]]  # query [rows, D] -> context [rows, M], weights [rows, S]


@dataclass(frozen=True)
class Annotations(Rows):
    """What the decoder of a recurrent model attends to, one row per sentence; M is the annotations' width."""

    values: Tensor  # [B, S, M]
    keys: Tensor  # [B, S, A], the values' part of the score, computed once
    real: Tensor  # [B, S] bool

    def by_sentence(self, query: Tensor) -> Tensor:
        """Queries [B·W, A] as [B, W, A]."""
        sentences = self.keys.size(0)
        return query.view(sentences, query.size(0) // max(1, sentences), query.size(1))


class RecurrentAttention(nn.Module, ABC):
    """weights = softmax(score(query, keys)) unless a kind weighs otherwise, context = sum of weights_j h_j."""

    @abstractmethod
    def keys(self, values: Tensor) -> Tensor:
        """What of the score depends on the annotations alone: [B, S, M] -> [B, S, A]."""

    @abstractmethod
    def scorer(self, memory: Annotations) -> Scorer:
        """What scores queries [B·W, D] in the steps of one loop: [B, W, S]."""

    def weigher(self, memory: Annotations) -> Weigher:
        """What makes scores weights in the steps of one loop: the softmax over what is there of the source."""
        real = None if memory.real.all() else memory.real.unsqueeze(1)  # [B, 1, S]
        return lambda scores, query: softmax_of_visible(scores, real)

    def annotate(self, values: Tensor, real: Tensor) -> Annotations:
        """Make the memory of values [B, S, M], of which `real` [B, S] is there."""
        return Annotations(values.to(compute_dtype(values)), self.keys(values), real)

    def unroll(self, memory: Annotations) -> Attend:
        """Attention to one memory for the steps of one loop; gradients of what all steps share are computed once.

        The result takes queries [B·W, D], the W hypotheses of a sentence beside each other, and gives contexts
        [B·W, M] and weights [B·W, S]; a source that sees nothing gives zeros.
        """
        score, weigh, mix = self.scorer(memory), self.weigher(memory), loop_batched_product(memory.values)

        def attend(query: Tensor) -> tuple[Tensor, Tensor]:
            weights = weigh(score(query).to(query.dtype), query)  # [B, W, S]
            return mix(weights).flatten(0, 1), weights.flatten(0, 1)

        return attend


def softmax_of_visible(scores: Tensor, visible: Tensor | None) -> Tensor:
    """Over what is visible [B, 1 or W, S], or everything for None, of scores [B, W, S]; zeros if nothing is."""
    if visible is None:
        return scores.softmax(-1)
    return scores.masked_fill(~visible, torch.finfo(scores.dtype).min).softmax(-1) * visible


class DotAttention(RecurrentAttention):
    """e_j = s · h_j, not scaled; state and annotations have the same width."""

    def keys(self, values: Tensor) -> Tensor:
        """The annotations themselves."""
        return values

    def scorer(self, memory: Annotations) -> Scorer:
        """See RecurrentAttention."""
        product = loop_batched_product(memory.keys.mT)
        return lambda query: product(memory.by_sentence(query))


class GeneralAttention(DotAttention):
    """e_j = s · W h_j."""

    def __init__(self, d_query: int, d_memory: int) -> None:
        super().__init__()
        self.key = linear(d_memory, d_query, bias=False)  # W_a

    def keys(self, values: Tensor) -> Tensor:
        """W h_j [B, S, D]."""
        return self.key(values)  # type: ignore[no-any-return]


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
