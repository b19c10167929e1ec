"""Multi-head self-attention: projections to heads, positions, and a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mtkit.layers.attention.kernel import TokenMixer
from mtkit.layers.attention.softmax import Window
from mtkit.layers.cache.kv_cache import KVCache
from mtkit.layers.cache.state import BatchedState
from mtkit.layers.heads import Heads, join_heads, split_heads
from mtkit.layers.key_types import QKNorm
from mtkit.layers.norms.config import LayerNormConfig, NoNormConfig, NormConfigBase, RMSNormConfig
from mtkit.layers.norms.residual import Sublayer
from mtkit.layers.positions.base import Position
from mtkit.layers.projections import linear

if TYPE_CHECKING:
    from mtkit.layers.attention.capabilities import AttentionConfigBase

# Over the K numbers of one head, with a gain that all heads share; Dehghani et al. 2023, sec. 2.1 (layer norm), after
# Henry et al. 2020. https://arxiv.org/abs/2302.05442
QK_NORMS: dict[QKNorm, NormConfigBase] = {"none": NoNormConfig(), "layer": LayerNormConfig(), "rms": RMSNormConfig()}


@dataclass(frozen=True, kw_only=True)
class AttentionParts:
    """Arguments of every kind of attention: those that a recipe states once for all kinds."""

    d_model: int
    heads: Heads
    position: Position
    causal: bool  # in a decoder
    dropout: float  # of the attention weights
    norm: QKNorm

    def window(self, width: int) -> Window:
        """A window of `width` positions to each side; in a decoder to the left only."""
        return Window(before=width, after=0 if self.causal else width)


class MultiHead(Sublayer):
    """Attention of several heads, whose results are joined by an output projection."""

    heads: Heads
    out: nn.Linear

    def join(self, y: Tensor) -> Tensor:
        """Project the results of the heads: [B, H, T, V] -> [B, T, D]; V is the width of a head's values."""
        joined: Tensor = self.out(join_heads(y))
        return joined


class SelfAttention(MultiHead, TokenMixer):
    """Multi-head self-attention; queries, keys and values come from one matrix product.

    Vaswani et al. 2017, sec. 3.2.2. Multi-query (Shazeer 2019) and grouped-query attention (Ainslie et al. 2023) are
    the cases G = 1 and 1 < G < H.
    """

    def __init__(self, config: AttentionConfigBase, parts: AttentionParts) -> None:
        super().__init__()
        heads = self.heads = parts.heads
        self.position = parts.position
        self.kernel = config.build_kernel(parts)
        self.query_key_value = linear(parts.d_model, heads.query_key_width + heads.value_width)
        self.out = linear(heads.num_heads * heads.value_dim, parts.d_model)
        self.query_norm, self.key_norm = (QK_NORMS[parts.norm].build(heads.head_dim) for _ in range(2))
        self.has_norms = parts.norm != "none"
        with torch.no_grad():
            gain = self.position.query_init_gain(heads.head_dim)
            self.query_key_value.weight[: heads.num_heads * heads.head_dim].mul_(gain)

    def value_path_weights(self) -> list[Tensor]:
        """See Sublayer."""
        return [self.query_key_value.weight[-self.heads.value_width :], self.out.weight]

    def project(self, x: Tensor, pos: Tensor, real: Tensor | None) -> tuple[Tensor, KVCache]:
        """Queries [B, H, T, K] of x [B, T, D], and its keys and values; queries and keys normalised, then rotated."""
        heads = self.heads
        projected = self.query_key_value(x)  # [B, T, (H + G)·K + G·V], V = K unless value_head_dim is set
        queries_keys, values = torch.split(projected, [heads.query_key_width, heads.value_width], dim=-1)
        queries_keys = split_heads(queries_keys, heads.num_heads + heads.num_kv_heads)  # [B, H + G, T, K]
        if self.has_norms:
            q, k = torch.split(queries_keys, [heads.num_heads, heads.num_kv_heads], dim=1)
            queries_keys = torch.cat([self.query_norm(q), self.key_norm(k)], dim=1)
        rotated = self.position.rotate(queries_keys, pos)
        q, k = torch.split(rotated, [heads.num_heads, heads.num_kv_heads], dim=1)  # [B, H, T, K], [B, G, T, K]
        return q, KVCache.of(k, split_heads(values, heads.num_kv_heads), pos, real)

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState]:
        """See TokenMixer; the kernel defines the state."""
        shape = x.shape
        state: Any = past
        if state is not None:
            x, pos = state.group_by_sentence(x), state.group_by_sentence(pos)  # [N, W·T, .]
        q, new = self.project(x, pos, real)
        y, state = self.kernel(q, new, state)  # [B, H, T, K]
        return self.join(y).view(shape), state

    def initial_state(self, num_sentences: int, device: torch.device) -> BatchedState | None:
        """See TokenMixer."""
        return self.kernel.initial_state(num_sentences, self.heads, device)
