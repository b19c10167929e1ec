"""Linformer: attention to a fixed number of learned projections of the keys."""

from __future__ import annotations

from torch import Tensor

from mtkit.errors import DataError
from mtkit.layers.attention.kernel import AttentionKernel
from mtkit.layers.attention.softmax import DotProductAttention
from mtkit.layers.cache.kv_cache import KVCache
from mtkit.layers.positions.base import Position
from mtkit.layers.projections import embedding


class LinformerAttention(AttentionKernel[KVCache]):
    """softmax(Q (E K)^T / sqrt(K)) F V with learned E and F [k, n], O(n·k).

    Wang et al. 2020, eq. 7, with E and F shared by the heads (sec. 4, "headwise sharing").
    https://arxiv.org/abs/2006.04768 . A column of E belongs to a position and padding has none, so that neither other
    sentences of the batch nor padding change the result. Projected keys depend on the whole sequence: for encoders.
    """

    def __init__(self, *, position: Position, max_length: int, projected_length: int, dropout: float) -> None:
        super().__init__()
        self.dot_product = DotProductAttention(position, dropout)
        self.key_projection = embedding(max_length, projected_length)  # E^T; N(0, 1/k) as in the paper
        self.value_projection = embedding(max_length, projected_length)  # F^T

    def forward(self, q: Tensor, new: KVCache, past: KVCache | None) -> tuple[Tensor, KVCache]:
        """See AttentionKernel.

        Raises:
            DataError: a position is beyond the columns of E.
            ValueError: there is a past.
        """
        if past is not None:
            raise ValueError("Linformer projects whole sequences; it cannot decode step by step")
        max_length = self.key_projection.num_embeddings
        if new.pos.numel() and int(new.pos.max()) >= max_length:
            raise DataError(
                f"a sentence of {int(new.pos.max()) + 1} tokens is longer than the {max_length} positions of "
                "Linformer's projections; raise max_length of encoder_attention, or use another kind"
            )
        e = self.key_projection(new.pos).to(new.k.dtype)  # [B, S, k]
        f = self.value_projection(new.pos).to(new.v.dtype)  # [B, S, k]
        if new.real is not None:
            e, f = e * new.real.unsqueeze(-1), f * new.real.unsqueeze(-1)
        k, v = e.mT.unsqueeze(1) @ new.k, f.mT.unsqueeze(1) @ new.v  # [B, G, k, K]
        pos = new.pos.new_zeros(new.pos.size(0), k.size(2))  # [B, k]; projected keys have no position
        visible = None if new.real is None else new.real.any(1)[:, None, None, None]  # [B, 1, 1, 1]
        y, _ = self.dot_product(q, new.pos, KVCache.of(k, v, pos, None), visible)
        return y, new
