"""Multiplicative attention: the score of an annotation is its inner product with the decoder's state.

Luong, Pham & Manning 2015, eq. 8. https://arxiv.org/abs/1508.04025
"""

from __future__ import annotations

from torch import Tensor

from mtkit.layers.linear import linear
from mtkit.layers.recurrent_attention import Annotations, RecurrentAttention, Scorer
from mtkit.layers.recurrent_gradient import loop_batched_product


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
