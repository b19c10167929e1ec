"""TUPE: scores of content and of position with separate projections."""

from __future__ import annotations

import math

from torch import Tensor, nn

from mtkit.errors import DataError
from mtkit.layers.heads import Heads, split_heads
from mtkit.layers.positions.base import Position
from mtkit.layers.positions.t5 import T5Bias
from mtkit.layers.projections import embedding, linear


class TUPE(Position):
    """(q_i · k_j + p_i U_Q · p_j U_K) / sqrt(2K) + b_(j-i) with learned position vectors p, after a layer norm.

    Ke, He & Liu 2021, eq. 7 (TUPE-A), and eq. 8 with the term b (TUPE-R, buckets as T5). https://arxiv.org/abs/2006.15595
    All layers share p, U_Q, U_K and b. The untied [CLS] of sec. 3.2 has no counterpart in translation. Scores are
    computed for the range of positions that occurs, in every layer.
    """

    def __init__(self, d_model: int, heads: Heads, *, max_length: int, relative: T5Bias | None) -> None:
        super().__init__()
        self.table = embedding(max_length, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.query = linear(d_model, heads.num_heads * heads.head_dim, bias=False)  # U_Q
        self.key = linear(d_model, heads.num_heads * heads.head_dim, bias=False)  # U_K
        self.relative = relative
        self.num_heads = heads.num_heads

    def scale(self, head_dim: int) -> float:
        """1/sqrt(2K), for two terms."""
        return super().scale(head_dim) / math.sqrt(2)

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """[B, H, T, S], or None without keys or queries.

        Raises:
            DataError: a position is beyond the table.
        """
        if not q_pos.numel() or not k_pos.numel():
            return None
        queries, first_query = self._project(self.query, q_pos)  # [H, N, K]
        keys, first_key = self._project(self.key, k_pos)  # [H, M, K]
        by_position = queries @ keys.mT * self.scale(q.size(-1))  # [H, N, M]
        index = (q_pos - first_query).unsqueeze(-1), (k_pos - first_key).unsqueeze(-2)  # [B, T, 1], [B, 1, S]
        scores = by_position[:, index[0], index[1]].transpose(0, 1).to(q.dtype)  # [B, H, T, S]
        return scores if self.relative is None else scores + self.relative.bias(q, k, q_pos, k_pos)

    def _project(self, projection: nn.Module, pos: Tensor) -> tuple[Tensor, int]:
        """Projected vectors [H, N, K] of the positions from the lowest to the highest of `pos`, and the lowest."""
        lowest, highest = (int(end) for end in pos.aminmax())
        if highest >= self.table.num_embeddings:
            raise DataError(
                f"a sentence of {highest + 1} tokens is longer than the {self.table.num_embeddings} learned positions; "
                "raise max_length of the tupe positions"
            )
        vectors = self.norm(self.table.weight[lowest : highest + 1])  # [N, D]
        return split_heads(projection(vectors).unsqueeze(0), self.num_heads).squeeze(0), lowest
