"""DeBERTa: disentangled attention, with separate scores for content and relative position."""

from __future__ import annotations

import math

from torch import Tensor, nn

from mtkit.layers.heads import split_heads
from mtkit.layers.positions.base import Position, gather_by_distance, relative_distance
from mtkit.layers.projections import linear


class DeBERTaPosition(Position):
    """(q_i · k_j + q_i · W_k P_d + k_j · W_q P_d) / sqrt(3K) with d = i - j + c clipped to [0, 2c).

    He et al. 2021, eq. 2 to 4: content-to-content, content-to-position, position-to-content.
    https://arxiv.org/abs/2006.03654 . The layers share the table P and have separate W_k and W_q. As in the authors'
    code, and unlike the paper, the third term uses the same sign of the distance as the second (the paper: j - i), and
    W_q has a bias.
    """

    def __init__(self, table: nn.Embedding, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.table = table  # P, [2c, D]
        self.key = linear(table.embedding_dim, num_heads * head_dim, bias=False)
        self.query = linear(table.embedding_dim, num_heads * head_dim)
        self.num_heads = num_heads

    def scale(self, head_dim: int) -> float:
        """1/sqrt(3K), for three terms."""
        return super().scale(head_dim) / math.sqrt(3)

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor:
        """[B, H, T, S]."""
        span, scale = self.table.num_embeddings // 2, self.scale(q.size(-1))
        index = (relative_distance(q_pos, k_pos) + span).clamp(0, 2 * span - 1)  # [B, T, S]
        keys = split_heads(self.key(self.table.weight).unsqueeze(0), self.num_heads)  # [1, H, 2c, K]
        queries = split_heads(self.query(self.table.weight).unsqueeze(0), self.num_heads)  # [1, H, 2c, K]
        to_position = gather_by_distance(q * scale @ keys.to(q.dtype).mT, index)  # [B, H, T, S]
        content = k.repeat_interleave(self.num_heads // k.size(1), dim=1) * scale  # [B, H, S, K]
        from_position = gather_by_distance(content @ queries.to(q.dtype).mT, index.mT)  # [B, H, S, T]
        return to_position + from_position.mT
