"""Attention to a fixed number of mixtures of the keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor

from mtkit.errors import DataError
from mtkit.layers.attention.kernel import SelfKernel
from mtkit.layers.attention.multi_head import SelfAttention, SelfAttentionParts
from mtkit.layers.attention.softmax import Weighing
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.state import Rows
from mtkit.layers.positions.base import Position
from mtkit.layers.projections import Width, embedding


class LinformerAttention(SelfKernel):
    """softmax(Q (E K)^T / sqrt(K)) F V with learned E and F [k, n], O(n·k).

    Wang et al. 2020, eq. 7, with E and F shared by the heads (sec. 4, "headwise sharing").
    https://arxiv.org/abs/2006.04768 . A column of E belongs to a position, and padding has none, so that
    neither batch-mates nor padding matter. Mixtures look at the whole sequence: an encoder's.
    """

    def __init__(self, *, position: Position, max_length: int, mixtures: int, dropout: float) -> None:
        super().__init__()
        self.weigh = Weighing(position, dropout)
        self.mix_keys = embedding(max_length, mixtures)  # E^T; N(0, 1/k) as in the paper
        self.mix_values = embedding(max_length, mixtures)  # F^T

    def attend(self, q: Tensor, new: KeyValues, past: Rows | None) -> tuple[Tensor, Rows]:
        """See SelfKernel.

        Raises:
            DataError: a position is beyond the columns of E.
            ValueError: there is a past.
        """
        if past is not None:
            raise ValueError("Linformer mixes whole sequences and cannot be decoded step by step")
        most = self.mix_keys.num_embeddings
        if new.pos.numel() and int(new.pos.max()) >= most:
            raise DataError(
                f"a sentence of {int(new.pos.max()) + 1} tokens is longer than the {most} positions that Linformer "
                "mixes; raise max_length of encoder_attention, or use another kind"
            )
        e, f = self.mix_keys(new.pos).to(new.k.dtype), self.mix_values(new.pos).to(new.v.dtype)  # [B, S, k]
        if new.real is not None:
            e, f = e * new.real.unsqueeze(-1), f * new.real.unsqueeze(-1)
        k, v = e.mT.unsqueeze(1) @ new.k, f.mT.unsqueeze(1) @ new.v  # [B, G, k, K]
        pos = new.pos.new_zeros(new.pos.size(0), k.size(2))  # [B, k]; mixtures stand nowhere
        visible = None if new.real is None else new.real.any(1)[:, None, None, None]
        y, _ = self.weigh(q, new.pos, KeyValues.of(k, v, pos, None), visible)
        return y, new


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
