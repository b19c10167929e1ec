"""Sliding-window attention in blocks, whose cost is linear in the length, and Longformer with its global tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.layers.attention import AttentionKernel, AttentionParts, SelfAttention
from mtkit.layers.cache import BatchedState, KVCache
from mtkit.layers.projections import linear
from mtkit.layers.sizes import split_heads
from mtkit.layers.softmax import DotProductAttention, Window, causal

if TYPE_CHECKING:
    from mtkit.layers.variants.config import LongformerConfig, SlidingWindowConfigBase


@dataclass(frozen=True)
class GlobalTokens:
    """Rule that chooses global tokens. Beltagy, Peters & Cohan 2020, sec. 3.1, "global attention".

    Attributes:
        bos: the first token of a sentence.
        eos: the last one, which is the end-of-sentence token on the source side.
        stride: the last one of every `stride` positions (for 16: positions 15, 31, ...), or None.
    """

    bos: bool = False
    eos: bool = False
    stride: int | None = None

    @property
    def enabled(self) -> bool:
        """True if the rule can choose any token."""
        return self.bos or self.eos or self.stride is not None

    def mask(self, pos: Tensor, real: Tensor | None) -> Tensor:
        """True for global tokens, [B, S], of tokens at pos [B, S]; never for padding."""
        chosen = torch.zeros_like(pos, dtype=torch.bool)
        if not pos.numel():
            return chosen
        real = torch.ones_like(chosen) if real is None else real
        if self.bos:
            chosen |= pos == pos.masked_fill(~real, torch.iinfo(pos.dtype).max).amin(1, keepdim=True)
        if self.eos:
            chosen |= pos == pos.masked_fill(~real, torch.iinfo(pos.dtype).min).amax(1, keepdim=True)
        if self.stride is not None:
            chosen |= pos % self.stride == self.stride - 1
        return chosen & real


@dataclass(frozen=True)
class GatheredTokens:
    """Indices of up to M selected tokens of each of B sequences."""

    index: Tensor  # [B, M] int64
    real: Tensor  # [B, M] bool, False where a sequence has fewer

    @classmethod
    def of(cls, selected: Tensor) -> GatheredTokens:
        """The tokens where selected [B, S] is True, in order."""
        max_count = int(selected.sum(1).max()) if selected.size(0) else 0
        index = selected.byte().argsort(dim=1, descending=True, stable=True)[:, :max_count]  # [B, M]
        return cls(index, selected.gather(1, index))

    def gather(self, x: Tensor, dim: int) -> Tensor:
        """Select the tokens from x [B, ...] with S at `dim`: the same shape with M at `dim`."""
        shape = [1] * x.dim()
        shape[0], shape[dim] = self.index.shape
        expanded = list(x.shape)
        expanded[dim] = self.index.size(1)
        return x.gather(dim, self.index.view(shape).expand(expanded))


MIN_BLOCK = 64  # positions; products of smaller matrices leave a processor idle


class SlidingWindowAttention(AttentionKernel[KVCache]):
    """Attention within a sliding window and to global tokens, O(n · (window + globals)) in time and memory.

    Beltagy, Peters & Cohan 2020, sec. 3.1. https://arxiv.org/abs/2004.05150
    The queries of a block attend to the keys of that block, to those within a window of it, and to the global tokens,
    in one softmax. Blocks are folded into the batch, so that every position encoding works unchanged and no T x S
    scores exist. A sequence hardly longer than its window is one block. A decoding step reads only the end of the
    cache, unless there are global tokens, which may be anywhere in it.
    """

    def __init__(self, config: SlidingWindowConfigBase, parts: AttentionParts) -> None:
        super().__init__(config, parts)
        self.dot_product = DotProductAttention(parts.position, parts.dropout)
        self.window = Window(before=config.width, after=0 if parts.causal else config.width)
        self.global_tokens = GlobalTokens(**config.global_tokens)

    def forward(self, q: Tensor, new: KVCache, past: KVCache | None) -> tuple[Tensor, KVCache]:
        """See AttentionKernel; the state holds all keys and values."""
        if past is None:
            return self.attend_all(q, new, self.global_tokens.mask(new.pos, new.real)), new
        cache = past.append(new)
        is_local = cache.real is None and not self.global_tokens.enabled
        near = cache.last(self.window.before + new.length) if is_local else cache
        is_global = self.global_tokens.mask(near.pos, near.real)
        y, _ = self.dot_product(q, new.pos, near, self.mask(new.pos, near, is_global))
        return y, cache

    def mask(self, q_pos: Tensor, kv: KVCache, is_global: Tensor) -> Tensor:
        """Visibility [B, 1, T, S] of all keys to queries at q_pos [B, T]; is_global [B, S] marks the global keys."""
        visible = self.window(q_pos, kv.pos) | self.global_visible(q_pos, kv.pos, is_global)  # [B, T, S]
        return (visible if kv.real is None else visible & kv.real.unsqueeze(1)).unsqueeze(1)

    def global_visible(self, q_pos: Tensor, k_pos: Tensor, is_global: Tensor) -> Tensor:
        """Visibility [B, 1 or T, S] of the global keys, by is_global [B, S]."""
        visible = is_global.unsqueeze(1)  # a window that ends at the query is causal
        return visible if self.window.after else visible & causal(q_pos, k_pos)

    def attend_all(self, q: Tensor, kv: KVCache, is_global: Tensor) -> Tensor:
        """Attention [B, H, T, K] of a whole sequence to itself, where is_global [B, T] marks the global tokens."""
        if kv.length <= max(MIN_BLOCK, self.window.before + self.window.after):
            return self.dot_product(q, kv.pos, kv, self.mask(kv.pos, kv, is_global))[0]  # type: ignore[no-any-return]
        if is_position_sorted(kv):
            return self.attend_blocked(q, kv, is_global)
        # Padding between tokens, or a permutation: blocks need neighbours in position to be neighbours in memory.
        order = by_position(kv)
        y = self.attend_blocked(order.gather(q, 2), kv.gather(order.index), order.gather(is_global, 1))
        return GatheredTokens(order.index.argsort(1), order.real).gather(y, 2)

    def attend_blocked(self, q: Tensor, kv: KVCache, is_global: Tensor) -> Tensor:
        """Attention in blocks of a sequence in order of its positions; N blocks of C queries and M context keys."""
        window = self.window
        size = max(MIN_BLOCK, window.before, window.after)
        blocks = Blocks(kv.length, size, before=window.before, after=window.after)
        real = torch.ones_like(kv.pos, dtype=torch.bool) if kv.real is None else kv.real
        # Padding gets the position of its neighbour, so that no encoding meets a distance larger than the window.
        pos = kv.pos.masked_fill(~real, -1).cummax(1).values  # [B, S]
        q_pos = blocks.to_blocks(pos[:, None, :, None])[:, 0, :, 0]  # [B·N, C]
        k_pos = blocks.to_context_blocks(pos[:, None, :, None])[:, 0, :, 0]  # [B·N, M]
        visible = window(q_pos, k_pos)  # [B·N, C, M]
        in_context = blocks.to_context_blocks(real[:, None, :, None])[:, 0, :, 0]  # [B·N, M]
        k, v = blocks.to_context_blocks(kv.k), blocks.to_context_blocks(kv.v)  # [B·N, G, M, K]
        if self.global_tokens.enabled:
            # Global tokens are appended to the context of every block, and hidden where they also stand inside it, so
            # that the softmax counts each of them once.
            in_context = in_context & ~blocks.to_context_blocks(is_global[:, None, :, None])[:, 0, :, 0]
            tokens = GatheredTokens.of(is_global)  # L of them
            global_pos = blocks.repeat(tokens.gather(pos, 1))  # [B·N, L]
            global_visible = self.global_visible(q_pos, global_pos, blocks.repeat(tokens.real))
            k = torch.cat([k, blocks.repeat(tokens.gather(kv.k, 2))], dim=2)  # [B·N, G, M + L, K]
            v = torch.cat([v, blocks.repeat(tokens.gather(kv.v, 2))], dim=2)
            k_pos = torch.cat([k_pos, global_pos], dim=1)  # [B·N, M + L]
            visible = torch.cat([visible & in_context.unsqueeze(1), global_visible.expand(-1, size, -1)], dim=2)
        else:
            visible = visible & in_context.unsqueeze(1)
        context = KVCache.of(k, v, k_pos, None)
        y, _ = self.dot_product(blocks.to_blocks(q), q_pos, context, visible.unsqueeze(1))  # [B·N, H, C, K]
        return blocks.from_blocks(y, q.size(0))


def is_position_sorted(kv: KVCache) -> bool:
    """Return whether two tokens are never closer in position than in memory: in order, no padding in between."""
    lead = kv.pos - torch.arange(kv.length, device=kv.pos.device)  # [B, S]
    if kv.real is None:
        return bool((lead[:, 1:] >= lead[:, :-1]).all())
    lowest = torch.iinfo(lead.dtype).min
    running_max = lead.masked_fill(~kv.real, lowest).cummax(1).values
    return bool(((lead >= running_max) | ~kv.real).all())


def by_position(kv: KVCache) -> GatheredTokens:
    """All tokens in order of their positions, padding last."""
    real = torch.ones_like(kv.pos, dtype=torch.bool) if kv.real is None else kv.real
    index = kv.pos.masked_fill(~real, torch.iinfo(kv.pos.dtype).max).argsort(dim=1, stable=True)
    return GatheredTokens(index, torch.ones_like(real))


@dataclass(frozen=True)
class Blocks:
    """Partition of T positions into N blocks of C; the context of a block are M positions around and including it.

    All methods take [B, H, T, K] and return [B·N, H, C or M, K]; positions outside the sequence are zero.
    """

    length: int  # T
    size: int  # C
    before: int  # context positions before the block
    after: int  # and after it

    @property
    def count(self) -> int:
        """N."""
        return -(-self.length // self.size)

    @property
    def padding(self) -> int:
        """Positions of the last block beyond the sequence."""
        return self.count * self.size - self.length

    def to_blocks(self, x: Tensor) -> Tensor:
        """The positions of each block: [B·N, H, C, K]."""
        blocks = torch.unflatten(F.pad(x, (0, 0, 0, self.padding)), 2, (self.count, self.size))  # [B, H, N, C, K]
        return blocks.movedim(2, 1).flatten(0, 1)

    def to_context_blocks(self, x: Tensor) -> Tensor:
        """The context of each block: [B·N, H, M, K]."""
        padded = F.pad(x, (0, 0, self.before, self.padding + self.after))
        blocks = padded.unfold(2, self.before + self.size + self.after, self.size)  # [B, H, N, K, M]
        return blocks.permute(0, 2, 1, 4, 3).flatten(0, 1)

    def repeat(self, x: Tensor) -> Tensor:
        """The same tensor for every block: x [B, ...] -> [B·N, ...]."""
        return x.unsqueeze(1).expand(-1, self.count, *[-1] * (x.dim() - 1)).flatten(0, 1)

    def from_blocks(self, y: Tensor, batch: int) -> Tensor:
        """Inverse of `to_blocks`: [B·N, H, C, K] -> [B, H, T, K]."""
        blocks = y.view(batch, self.count, *y.shape[1:]).movedim(1, 2)  # [B, H, N, C, K]
        return blocks.flatten(2, 3)[:, :, : self.length]


class LongformerAttention(SelfAttention):
    """Sliding window, global tokens that all tokens attend to, and attention of the global tokens to all tokens.

    Beltagy, Peters & Cohan 2020, sec. 3.1, "global attention" and "linear projections for global attention": the global
    tokens have projections of their own. https://arxiv.org/abs/2004.05150 . For encoders; O(n · (window + globals)).
    """

    kernel: SlidingWindowAttention

    def __init__(self, config: LongformerConfig, parts: AttentionParts) -> None:
        super().__init__(config, parts)
        heads = parts.heads
        self.global_tokens = self.kernel.global_tokens
        self.attend_all, self.dot_product = self.kernel.attend_all, self.kernel.dot_product
        self.global_query = linear(parts.d_model, heads.num_heads * heads.head_dim)
        self.global_key_value = linear(parts.d_model, heads.num_kv_heads * heads.head_dim + heads.value_width)
        with torch.no_grad():
            self.global_query.weight.mul_(self.position.query_init_gain(heads.head_dim))

    def value_path_weights(self) -> list[Tensor]:
        """See Sublayer."""
        return [*super().value_path_weights(), self.global_key_value.weight[-self.heads.value_width :]]

    def forward(
        self, x: Tensor, pos: Tensor, *, real: Tensor | None = None, past: BatchedState | None = None
    ) -> tuple[Tensor, BatchedState]:
        """See TokenMixer.

        Raises:
            ValueError: there is a past; global tokens attend to following tokens.
        """
        if past is not None:
            raise ValueError("Longformer's global tokens attend to following tokens; it cannot decode step by step")
        q, new = self.project(x, pos, real)
        is_global = self.global_tokens.mask(pos, real)  # [B, T]
        y = self.attend_all(q, new, is_global)  # [B, H, T, K]
        tokens = GatheredTokens.of(is_global)
        # the M global tokens attend to all tokens, by projections of their own
        global_pos = tokens.gather(pos, 1)  # [B, M]
        q = self.query_norm(split_heads(self.global_query(tokens.gather(x, 1)), self.heads.num_heads))  # [B, H, M, K]
        projected, groups, values = self.global_key_value(x), self.heads.num_kv_heads, self.heads.value_width
        k, v = split_heads(projected[..., :-values], groups), split_heads(projected[..., -values:], groups)
        kv = KVCache.of(self.position.rotate(self.key_norm(k), pos), v, pos, real)
        visible = None if real is None else real[:, None, None, :]  # [B, 1, 1, T]
        global_y, _ = self.dot_product(self.position.rotate(q, global_pos), global_pos, kv, visible)  # [B, H, M, K]
        # a sequence with fewer than M of them keeps the results of its other tokens
        global_y = torch.where(tokens.real[:, None, :, None], global_y, tokens.gather(y, 2)).to(y.dtype)
        index = tokens.index[:, None, :, None].expand_as(global_y)
        return self.join(y.scatter(2, index, global_y)), new
