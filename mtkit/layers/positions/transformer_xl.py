"""Relative position encoding of Transformer-XL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from mtkit.layers.heads import Heads, split_heads
from mtkit.layers.positions.base import Position, Positions, distance, in_each_layer, pick
from mtkit.layers.positions.sinusoidal import Sinusoidal
from mtkit.layers.projections import embedding, linear


class TransformerXLPosition(Position):
    """((q_i + u) · k_j + (q_i + v) · W_R R_(i-j)) / sqrt(K) with sinusoids R and learned biases u and v.

    Dai et al. 2019, sec. 3.3, the terms (a) to (d), computed as in appendix B: the product with W_R R once for each
    distance that occurs. https://arxiv.org/abs/1901.02860 . In an encoder the distance has a sign. Beside landmarks
    (Longformer, strided) all distances occur for every block of queries, and the cost is that of full attention.
    """

    def __init__(self, d_model: int, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.encoding = Sinusoidal(d_model)
        self.relative = linear(d_model, num_heads * head_dim, bias=False)  # W_{k,R}
        self.content = embedding(num_heads, head_dim)  # u
        self.position = embedding(num_heads, head_dim)  # v
        nn.init.zeros_(self.content.weight)
        nn.init.zeros_(self.position.weight)

    def bias(self, q: Tensor, k: Tensor, q_pos: Tensor, k_pos: Tensor) -> Tensor | None:
        """[B, H, T, S], or None if there are no keys or queries."""
        away = distance(q_pos, k_pos)  # [B, T, S]
        if not away.numel():
            return None
        heads, scale = self.content.num_embeddings, self.scale(q.size(-1))
        nearest, farthest = (int(end) for end in away.aminmax())
        distances = torch.arange(nearest, farthest + 1, device=q.device)  # [N]
        encoded = self.encoding.encoding(distances).to(self.relative.weight.dtype)  # [N, D]
        relative = split_heads(self.relative(encoded).unsqueeze(0), heads)  # [1, H, N, K]
        u, v = self.content.weight.to(q.dtype).unsqueeze(1), self.position.weight.to(q.dtype).unsqueeze(1)  # [H, 1, K]
        by_distance = (q + v) * scale @ relative.to(q.dtype).mT  # [B, H, T, N]
        keys = k.repeat_interleave(heads // k.size(1), dim=1)  # [B, H, S, K]
        by_content = u * scale @ keys.mT  # [B, H, 1, S]
        return pick(by_distance, away - nearest) + by_content


@dataclass(frozen=True, kw_only=True)
class TransformerXLConfig:
    """Relative encoding of Transformer-XL (see TransformerXLPosition)."""

    kind: Literal["transformer_xl"] = "transformer_xl"

    def build(self, d_model: int, heads: Heads, *, layers: int, causal: bool) -> Positions:
        """W_R, u and v of its own for each layer."""
        return in_each_layer(lambda: TransformerXLPosition(d_model, heads.num_heads, heads.head_dim), layers)
