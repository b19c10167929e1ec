"""Multi-head attention: self-attention with an exchangeable kernel, and cross-attention."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from mtkit.layers.cache import (
    AttentionCache,
    AttentionPattern,
    AttentionState,
    BatchedState,
    KVCache,
    SharedPrefixCache,
)
from mtkit.layers.config import LayerNormConfig, NoNormConfig, NormConfigBase, RMSNormConfig
from mtkit.layers.norms import Sublayer
from mtkit.layers.positions import Position
from mtkit.layers.projections import linear
from mtkit.layers.sizes import Heads, QKNorm, split_heads
from mtkit.layers.softmax import DotProductAttention, causal, full

if TYPE_CHECKING:
    from mtkit.layers.config import AttentionConfigBase, FullAttentionConfig


StateT = TypeVar("StateT", bound=AttentionState)
S = TypeVar("S", bound=BatchedState)


class AttentionKernel(nn.Module, Generic[StateT]):
    """Computation between the query/key/value projections and the output projection; it defines the decoder state."""

    def __init__(self, config: AttentionConfigBase, parts: AttentionParts) -> None:
        super().__init__()

    def forward(self, q: Tensor, new: KVCache, past: StateT | None) -> tuple[Tensor, StateT]:
        """Attend from T new tokens to the past and to each other.

        Args:
            q: [B, H, T, K], queries of the new tokens.
            new: keys, values and positions of the new tokens.
            past: state that this kernel returned for the preceding tokens; all new tokens are then real.

        Returns:
            Weighted values [B, H, T, K], zeros for a query that sees no key; and the state after the new tokens.
        """
        raise NotImplementedError

    def initial_state(self, num_sentences: int, heads: Heads, device: torch.device) -> StateT | None:
        """State before the first token of a decoder; None if the kernel makes it from the first token."""
        return None


class TokenMixer(Sublayer):
    """Sublayer through which tokens exchange information: self-attention, or a replacement in a decoder."""

    @abstractmethod
    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState]:
        """Process T tokens after the `past`.

        Args:
            x: [B, T, D].
            pos: [B, T].
            real: [B, T], or None if all tokens are real; only without `past`.
            past: state after the preceding tokens; all new tokens are then real.

        Returns:
            [B, T, D], and the state after the last token.
        """

    def initial_state(self, num_sentences: int, device: torch.device) -> BatchedState | None:
        """State before the first token; None if `forward` makes it from the first token."""
        return None


def check_state(state: BatchedState | None, kind: type[S]) -> S | None:
    """The state, for layers that compute with its fields.

    Raises:
        ValueError: a layer of another kind returned it.
    """
    if state is not None and not isinstance(state, kind):
        raise ValueError(f"expected the state {kind.__name__}, not {type(state).__name__} of another kind of layer")
    return state


class SoftmaxAttention(AttentionKernel[AttentionCache]):
    """Self-attention of every query to every key that the pattern shows (see DotProductAttention)."""

    def __init__(self, config: FullAttentionConfig, parts: AttentionParts) -> None:
        super().__init__(config, parts)
        self.dot_product = DotProductAttention(parts.position, parts.dropout)
        self.pattern: AttentionPattern = causal if parts.causal else full

    def forward(self, q: Tensor, new: KVCache, past: AttentionCache | None) -> tuple[Tensor, AttentionCache]:
        """See AttentionKernel; the state holds all keys and values."""
        cache = new if past is None else past.append(new)
        # One new token per hypothesis comes after all others, so that a causal mask would hide nothing.
        is_last = past is not None and q.size(2) == cache.beam_size and self.pattern is causal
        visible = cache.visible(full if is_last else self.pattern, new.pos)  # [B, 1, 1 or T, S]
        y, _ = self.dot_product(q, new.pos, cache.kv, visible)
        return y, cache

    def initial_state(self, num_sentences: int, heads: Heads, device: torch.device) -> AttentionCache:
        """An empty cache in which the hypotheses of a sentence will share their prefixes."""
        return SharedPrefixCache(KVCache.empty(num_sentences, heads.num_kv_heads, heads.head_dim, device))


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


class MultiHead(Sublayer):
    """Attention of several heads, whose results are joined by an output projection."""

    heads: Heads
    out: nn.Linear

    def join(self, y: Tensor) -> Tensor:
        """Project the results of the heads: [B, H, T, V] -> [B, T, D]; V is the width of a head's values."""
        return self.out(y.transpose(1, 2).flatten(-2))  # type: ignore[no-any-return]


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


class CrossAttention(MultiHead):
    """Attention of one sequence to another, whose keys and values are projected once; without positions.

    Vaswani et al. 2017, sec. 3.2.3. Translation may compute the same in less time (mtkit/inference), as long as the
    results agree: a change of this class acts in training, validation, greedy and beam search.
    """

    def __init__(self, parts: AttentionParts) -> None:
        super().__init__()
        heads = self.heads = parts.heads
        self.dot_product = DotProductAttention(parts.position, parts.dropout)
        self.query = linear(parts.d_model, heads.num_heads * heads.head_dim)
        self.key_value = linear(parts.d_model, heads.num_kv_heads * heads.head_dim + heads.value_width)
        self.out = linear(heads.num_heads * heads.value_dim, parts.d_model)
        self.query_norm, self.key_norm = (QK_NORMS[parts.norm].build(heads.head_dim) for _ in range(2))

    def value_path_weights(self) -> list[Tensor]:
        """See Sublayer."""
        return [self.key_value.weight[-self.heads.value_width :], self.out.weight]

    def project(self, memory: Tensor, pos: Tensor, real: Tensor | None) -> KVCache:
        """Keys and values of memory [B, S, D] at pos [B, S]; `real` [B, S] is False for padding, None without it."""
        heads, groups = self.heads, self.heads.num_kv_heads
        projected = self.key_value(memory).split([groups * heads.head_dim, heads.value_width], dim=-1)  # keys, values
        k, v = (split_heads(x, groups) for x in projected)  # [B, G, S, K]
        return KVCache.of(self.key_norm(k), v, pos, real)

    def forward(self, x: Tensor, pos: Tensor, memory: KVCache) -> tuple[Tensor, Tensor]:
        """Attend from x [B, T, D] at pos [B, T] to the projected memory.

        Returns:
            [B, T, D], and the weights [B, H, T, S].
        """
        q = self.query_norm(split_heads(self.query(x), self.heads.num_heads))  # [B, H, T, K]
        y, weights = self.dot_product(q, pos, memory, memory.visible(full, pos))  # [B, H, T, K]
        return self.join(y), weights
