"""Key/value cache of beam search in which the hypotheses of a sentence share the keys of their common prefixes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.layers.cache.kv_cache import AttentionCache, AttentionPattern, KVCache


@dataclass(frozen=True)
class SharedPrefixCache(AttentionCache):
    """Keys and values of all tokens of N sentences, each token stored once, and an ancestry mask per hypothesis.

    Hypotheses with a common prefix share its cached keys. Reordering beams therefore updates only the ancestry mask
    [N, W, M]; no keys are copied. To attention a sentence is one sequence of M keys, and T new tokens of each of its W
    hypotheses are W·T queries. Keys of dropped hypotheses are removed when the buffers are full.

    Only decoding makes one (see `AttentionKernel.initial_state`); training attends to a plain KVCache.

    Attributes:
        kv: keys and values [N, G, M, K].
        mask: [N, W, M], added to the scores of each hypothesis: 0 for its own tokens and the dtype's minimum for those
            of others; None: one hypothesis per sentence, to which all tokens belong.
    """

    kv: KVCache
    mask: Tensor | None = None

    @property
    def num_sentences(self) -> int:
        """N."""
        return self.kv.pos.size(0)

    @property
    def beam_size(self) -> int:
        """W."""
        return 1 if self.mask is None else self.mask.size(1)

    def index_select(self, rows: Tensor) -> SharedPrefixCache:
        """Select the hypotheses [N·W']. They stay grouped by sentence, and every sentence has the same number.

        Without tokens there is nothing to share: each selected row becomes a sentence of its own, so that independent
        paths (sampling) need no mask.
        """
        if not self.kv.length:
            return SharedPrefixCache(self.kv.index_select(rows))
        if self.mask is None and rows.numel() == self.num_sentences:
            return self
        mask = self.mask
        if mask is None:
            mask = self.kv.k.new_zeros(self.num_sentences, 1, self.kv.length)
        return SharedPrefixCache(self.kv, select_hypotheses(mask, rows))

    def group_by_sentence(self, x: Tensor) -> Tensor:
        """Tensor of T new tokens per hypothesis [N·W, T, ...] -> [N, W·T, ...]."""
        return x if self.mask is None else x.reshape(self.num_sentences, self.beam_size * x.size(1), *x.shape[2:])

    def append(self, new: KVCache) -> SharedPrefixCache:
        """See AttentionCache: T more tokens of each hypothesis, [N, G, W·T, K]."""
        if self.mask is None:
            return SharedPrefixCache(self.kv.append(new))
        # Before the buffers are copied to larger ones, which would also copy what no hypothesis needs any more.
        kv, mask = self._drop_dead() if self.kv.spare_capacity < new.length else (self.kv, self.mask)
        # A new token belongs to its own hypothesis alone: 0 on the diagonal, hidden from the W - 1 others.
        own = mask.new_full((self.beam_size, self.beam_size), torch.finfo(mask.dtype).min).fill_diagonal_(0)  # [W, W]
        if new.length > self.beam_size:
            own = own.repeat_interleave(new.length // self.beam_size, dim=1)  # [W, W·T]
        mask = torch.cat([mask, own.expand(self.num_sentences, -1, -1)], dim=2)  # [N, W, M + W·T]
        return SharedPrefixCache(kv.append(new), mask)

    def visible(self, pattern: AttentionPattern, q_pos: Tensor) -> Tensor | None:
        """See AttentionCache: what the pattern shows of a hypothesis' own tokens."""
        visible, ancestry = self.kv.visible(pattern, q_pos), self.ancestry_mask(q_pos.size(1))
        if ancestry is None:
            return visible
        ancestry = ancestry.unsqueeze(1)  # [N, 1, W·T, M]
        return ancestry if visible is None else torch.where(visible, ancestry, torch.finfo(ancestry.dtype).min)

    def ancestry_mask(self, num_queries: int) -> Tensor | None:
        """Additive mask [N, W·T, M] of the tokens of other hypotheses, for W·T queries; None if there are none."""
        if self.mask is None or self.beam_size == num_queries:
            return self.mask
        return self.mask.repeat_interleave(num_queries // self.beam_size, dim=1)

    def _drop_dead(self) -> tuple[KVCache, Tensor]:
        """Keys and mask without the tokens of dropped hypotheses, see `live_slots`."""
        if self.mask is None:
            raise ValueError("a cache of one hypothesis per sentence has no dead tokens")
        live = live_slots(self.mask)
        if live is None:
            return self.kv, self.mask
        index, mask = live
        return self.kv.gather(index), mask


def select_hypotheses(mask: Tensor, rows: Tensor) -> Tensor:
    """The ancestry mask [N, W', M] of the hypotheses [N·W'], from that of N·W hypotheses, [N, W, M]."""
    num_sentences, _, length = mask.shape
    return mask.reshape(-1, length).index_select(0, rows).view(num_sentences, -1, length)


def live_slots(mask: Tensor) -> tuple[Tensor, Tensor] | None:
    """The slots of an ancestry mask [N, W, M] that remain when those of dropped hypotheses go.

    All sentences keep as many slots as the one that needs most, because they share one tensor.

    Returns:
        Their indices [N, M'], in their old order, and their ancestry mask [N, W, M']; a sentence that needs fewer fills
        up with dead slots, masked as before. None if a sentence needs more than half of the M slots: a copy would save
        little.
    """
    in_use = (mask == 0).any(1)  # [N, M], some hypothesis descends from the token
    max_used = int(in_use.sum(1).max()) if in_use.numel() else 0
    if 2 * max_used > mask.size(2):
        return None
    # Stable sort: slots in use first, in their old order.
    index = in_use.int().sort(dim=1, descending=True, stable=True).indices[:, :max_used]  # [N, M']
    return index, mask.gather(2, index.unsqueeze(1).expand(-1, mask.size(1), -1))


def to_sentences(x: Tensor, num_sentences: int) -> Tensor:
    """Queries or weights of each hypothesis, grouped by sentence: [N·W, H, T, K] -> [N, H, W·T, K]."""
    rows, heads, length, width = x.shape
    if rows == num_sentences:
        return x
    beam_size = rows // max(1, num_sentences)
    grouped = x.reshape(num_sentences, beam_size, heads, length, width).transpose(1, 2)  # [N, H, W, T, K]
    return grouped.reshape(num_sentences, heads, beam_size * length, width)


def to_hypotheses(x: Tensor, length: int) -> Tensor:
    """Inverse of `to_sentences`, T = length: [N, H, W·T, K] -> [N·W, H, T, K]."""
    num_sentences, heads, queries, width = x.shape
    if queries == length:
        return x
    beam_size = queries // length
    grouped = x.reshape(num_sentences, heads, beam_size, length, width).transpose(1, 2)  # [N, W, H, T, K]
    return grouped.reshape(num_sentences * beam_size, heads, length, width)
