"""Attention of a recurrent decoder: one head over the annotations of the source, scored by whatever kind is chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mtkit.layers.autocast import compute_dtype
from mtkit.layers.recurrent_gradient import loop_batched_product
from mtkit.layers.rows import Rows

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
