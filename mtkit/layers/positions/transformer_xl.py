"""Relative position encoding of Transformer-XL."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mtkit.layers.heads import split_heads
from mtkit.layers.positions.base import Position, gather_by_distance, relative_distance
from mtkit.layers.positions.sinusoidal import Sinusoidal
from mtkit.layers.projections import embedding, linear


class TransformerXLPosition(Position):
    """((q_i + u) · k_j + (q_i + v) · W_R R_(i-j)) / sqrt(K) with sinusoids R and learned biases u and v.

    Dai et al. 2019, sec. 3.3, terms (a) to (d), computed as in appendix B: one product with W_R R for each distance
    that occurs. https://arxiv.org/abs/1901.02860 . In an encoder the distance is signed. With global tokens
    (Longformer, strided attention) every block of queries has all distances, and the cost is that of full attention.
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
        """[B, H, T, S], or None without keys or queries."""
        dist = relative_distance(q_pos, k_pos)  # [B, T, S]
        if not dist.numel():
            return None
        heads, scale = self.content.num_embeddings, self.scale(q.size(-1))
        lowest, highest = (int(end) for end in dist.aminmax())
        distances = torch.arange(lowest, highest + 1, device=q.device)  # [N]
        encoded = self.encoding.encoding(distances).to(self.relative.weight.dtype)  # [N, D]
        relative = split_heads(self.relative(encoded).unsqueeze(0), heads)  # [1, H, N, K]
        u, v = self.content.weight.to(q.dtype).unsqueeze(1), self.position.weight.to(q.dtype).unsqueeze(1)  # [H, 1, K]
        by_distance = (q + v) * scale @ relative.to(q.dtype).mT  # [B, H, T, N]
        keys = k.repeat_interleave(heads // k.size(1), dim=1)  # [B, H, S, K]
        by_content = u * scale @ keys.mT  # [B, H, 1, S]
        return gather_by_distance(by_distance, dist - lowest) + by_content
