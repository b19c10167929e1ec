"""Decoder state: what each layer stores of the tokens so far, and the key/value caches of attention.

A cache also multiplies by keys and values (`scores`, `weighted_sum`), because it alone knows its memory: grouped heads,
spare capacity and padding to the width of vector registers. Constants were measured, see tools/benchmarks/NOTES.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class BatchedState:
    """Base of all decoder states: a frozen dataclass of tensors whose first axis is the batch.

    A field is a tensor, another BatchedState, a tuple of these, or None. A subclass with other fields (KVCache)
    overrides both methods.

    A state can be continued in several ways, since `index_select` and the steps of a decoder leave it valid. `compact_`
    is the exception: it moves rows within the same memory.
    """

    def index_select(self, rows: Tensor) -> Self:
        """Select the rows [N] of every tensor, in that order. `self` stays valid."""
        return self._map(lambda tensor: tensor.index_select(0, rows), lambda state: state.index_select(rows))

    def compact_(self, sentences: Tensor, num_sentences: int) -> Self:
        """Drop all but some sentences. `self` must not be used afterwards: its memory may have been overwritten.

        Args:
            sentences: [N], the sentences to keep, in their new order.
            num_sentences: B; every sentence has the same number of consecutive rows.
        """
        return self._map(
            lambda tensor: tensor.index_select(0, row_indices(sentences, num_sentences, tensor.size(0))),
            lambda state: state.compact_(sentences, num_sentences),
        )

    def _map(self, of_tensor: Callable[[Tensor], Tensor], of_state: Callable[[BatchedState], BatchedState]) -> Self:
        """This state with the results for all tensors and states that its fields hold."""

        def changed(value: Any) -> Any:
            if isinstance(value, Tensor):
                return of_tensor(value)
            if isinstance(value, BatchedState):
                return of_state(value)
            return tuple(map(changed, value)) if isinstance(value, tuple) else value

        return replace(self, **{field.name: changed(getattr(self, field.name)) for field in fields(self)})


@dataclass(frozen=True)
class EmptyState(BatchedState):
    """No state: the memory of a decoder without attention, or the cache of one that forgets its preceding tokens."""


@dataclass(frozen=True)
class AttentionState(BatchedState):
    """State of one self-attention layer of a decoder; its kernel defines the contents."""

    def group_by_sentence(self, x: Tensor) -> Tensor:
        """Tensor of T new tokens per hypothesis [rows, T, ...], with as many rows as the state has."""
        return x


def row_indices(sentences: Tensor, num_sentences: int, num_rows: int) -> Tensor:
    """Indices of all rows of some `sentences` [N], where `num_sentences` sentences have `num_rows` rows together."""
    if num_rows == num_sentences:
        return sentences
    width = num_rows // max(1, num_sentences)
    return (sentences.unsqueeze(1) * width + torch.arange(width, device=sentences.device)).flatten()


# Called with the positions of queries [B, T] and of keys [B, S]: visibility [B, T, S], True where a query may attend to
# a key; None instead of a tensor if every key is visible. Patterns are in layers/softmax.py.
AttentionPattern = Callable[[Tensor, Tensor], Tensor | None]
MIN_KEYS = 16  # floats in the widest vector registers; torch computes products and softmax of fewer keys one by one
SMALL_MATMUL = 400  # multiplications in one matrix of a batched product below which MIN_KEYS pays
MIN_SPARE = 16  # free slots of a buffer after it was copied to a larger one
GROWTH = 0.5  # the same as a fraction of the slots in use; a larger one makes each `index_select` dearer


class GrowableBuffer:
    """Keys or values [rows, G, capacity, K] with spare capacity.

    Attributes:
        used: slots that some cache has already written; the only mutable part of a cache.
    """

    def __init__(self, data: Tensor, used: int) -> None:
        self.data = data
        self.used = used

    def first(self, length: int) -> Tensor:
        """The first slots, [rows, G, length, K]."""
        return self.data if self.data.size(2) == length else self.data.narrow(2, 0, length)

    def append(self, length: int, new: Tensor) -> GrowableBuffer:
        """A buffer with the first `length` slots of this one, followed by `new` [rows, G, T, K].

        It is this buffer, written in place, unless another cache has written beyond `length` or the capacity is used
        up. No cache therefore changes while it is in use.
        """
        total = length + new.size(2)
        if new.requires_grad or self.data.requires_grad:
            return GrowableBuffer(torch.cat([self.data[:, :, :length], new], dim=2), total)
        buffer = self
        if self.used != length or self.data.size(2) < total:
            capacity = total + max(MIN_SPARE, int(GROWTH * total))
            data = new.new_empty(new.size(0), new.size(1), capacity, new.size(3))  # [rows, G, capacity, K]
            data.narrow(2, 0, length).copy_(self.data.narrow(2, 0, length))
            if total < MIN_KEYS:
                data[:, :, total:MIN_KEYS] = 0  # padded products read these slots; they must be finite
            buffer = GrowableBuffer(data, length)
        buffer.data.narrow(2, length, new.size(2)).copy_(new)
        buffer.used = total
        return buffer

    def index_select(self, length: int, rows: Tensor) -> GrowableBuffer:
        """A copy of the rows [N], of which the first `length` slots are in use."""
        if self.data.requires_grad:
            return GrowableBuffer(self.data[:, :, :length].index_select(0, rows), length)
        return GrowableBuffer(self.in_memory_order(lambda data: data.index_select(0, rows)), length)

    def in_memory_order(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply `change`, which copies rows, to the data in the order of its memory (see `_concat_rows`)."""
        return change(self.data) if self.data.stride(3) == 1 else change(self.data.mT).mT


@dataclass(frozen=True)
class KVCache(AttentionState):
    """Keys and values [rows, G, S, K] with the positions of their tokens.

    Attributes:
        keys: of S tokens or more; `length` is S.
        vals: the values; may be the same buffer as the keys.
        length: S.
        pos: [rows, S] int64.
        real: [rows, S], which tokens are not padding: bool, or additive (see `additive_mask`), or None if all are real.
    """

    keys: GrowableBuffer
    vals: GrowableBuffer
    length: int
    pos: Tensor
    real: Tensor | None

    @classmethod
    def of(cls, k: Tensor, v: Tensor, pos: Tensor, real: Tensor | None) -> KVCache:
        """A cache of k and v [rows, G, S, K] without spare capacity."""
        length = k.size(2)
        return cls(GrowableBuffer(k, length), GrowableBuffer(v, length), length, pos, real)

    @classmethod
    def empty(cls, rows: int, groups: int, width: int, device: torch.device) -> KVCache:
        """A cache without tokens, G = groups, K = width. `append` takes the type of the first keys."""
        k = torch.zeros(rows, groups, 0, width, device=device)
        return cls.of(k, k, torch.zeros(rows, 0, dtype=torch.int64, device=device), None)

    @classmethod
    def concat(cls, parts: Sequence[KVCache], pos: Tensor, real: Tensor | None) -> KVCache:
        """Concatenate the rows of all parts, which may be shorter than pos and real [rows, S], for many queries."""
        length, vals = pos.size(1), _concat_rows([part.v for part in parts], pos.size(1))
        shared = all(part.vals is part.keys for part in parts)
        keys = vals if shared else _concat_rows([part.k for part in parts], length, transposed=True)
        return cls(keys=keys, vals=vals, length=length, pos=pos, real=real)

    @property
    def kv(self) -> KVCache:
        """The cache itself, as the keys and values that attention reads."""
        return self

    @property
    def beam_size(self) -> int:
        """W is 1: each row of `kv` belongs to one hypothesis."""
        return 1

    @property
    def k(self) -> Tensor:
        """[rows, G, S, K]."""
        return self.keys.first(self.length)

    @property
    def v(self) -> Tensor:
        """[rows, G, S, K]."""
        return self.vals.first(self.length)

    def scores(self, q: Tensor) -> Tensor:
        """Products of queries [rows, H, T, K] and keys, [rows, H, T, S].

        The H/G heads of a group are rows of one matrix product, so that its keys are read once (Ainslie et al. 2023).
        """
        rows, heads, length, width = q.shape
        groups = self.keys.data.size(1)
        queries = heads // groups * length  # of a group
        padded = self._padded_length(queries)
        keys = self.keys.data.narrow(2, 0, padded)  # [rows, G, padded, K]
        scores = q.reshape(rows, groups, queries, width) @ keys.mT  # [rows, G, (H/G)·T, padded]
        if padded > self.length:
            scores = scores.narrow(3, 0, self.length)
        return scores.view(rows, heads, length, self.length)

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """Values summed with weights [rows, H, T, S]: [rows, H, T, K]."""
        rows, heads, length, _ = weights.shape
        groups = self.vals.data.size(1)
        queries = heads // groups * length
        grouped = weights.reshape(rows, groups, queries, self.length)  # [rows, G, (H/G)·T, S]
        padded = self._padded_length(queries)
        if padded > self.length:
            grouped = F.pad(grouped, (0, padded - self.length))  # weight 0 on the slots beyond S
        vals = self.vals.data.narrow(2, 0, padded)  # [rows, G, padded, K]
        return (grouped @ vals).view(rows, heads, length, vals.size(3))

    def _padded_length(self, queries: int) -> int:
        """Number of slots that a product with `queries` queries per row runs over, S or MIN_KEYS.

        On a CPU, torch computes small matrices of a batched product number by number unless they are MIN_KEYS wide.
        """
        length, data = self.length, self.keys.data
        if length >= MIN_KEYS or data.size(2) == length or data.is_cuda:
            return length
        if queries * data.size(3) * length >= SMALL_MATMUL:
            return length
        return max(length, min(MIN_KEYS, data.size(2)))

    def visible(self, pattern: AttentionPattern, q_pos: Tensor) -> Tensor | None:
        """Attention mask of queries at q_pos [rows, T]: what the pattern shows, without padding.

        Returns:
            Bool [rows, 1, 1 or T, S], True where a key may be attended to; or a mask of the scores' type that is added
            to them; or None if every key is visible.
        """
        visible = pattern(q_pos, self.pos)  # [rows, T, S] or None
        if self.real is None:
            return None if visible is None else visible.unsqueeze(1)
        real = self.real[:, None, None, :]  # [rows, 1, 1, S]
        return real if visible is None else visible.unsqueeze(1) & real

    def append(self, new: KVCache) -> KVCache:
        """The cache with T more tokens of each row; none of them is padding."""
        if not self.length:
            return new
        real = self.real
        if real is not None:
            real = torch.cat([real, torch.ones_like(new.pos, dtype=torch.bool)], dim=1)
        length = self.length
        keys, vals = self.keys.append(length, new.k), self.vals.append(length, new.v)
        return KVCache(keys, vals, length + new.length, torch.cat([self.pos, new.pos], dim=1), real)

    def last(self, count: int) -> KVCache:
        """The last `count` tokens, or all if there are fewer; for reading."""
        first = max(0, self.length - count)
        real = None if self.real is None else self.real[:, first:]
        return KVCache.of(self.k[:, :, first:], self.v[:, :, first:], self.pos[:, first:], real)

    def gather(self, index: Tensor) -> KVCache:
        """The tokens at `index` [rows, T] of each row."""
        expanded = index[:, None, :, None].expand(-1, self.k.size(1), -1, -1)  # [rows, G, T, 1]
        k, v = (x.gather(2, expanded.expand(-1, -1, -1, x.size(3))) for x in (self.k, self.v))
        real = None if self.real is None else self.real.gather(1, index)
        return KVCache.of(k, v, self.pos.gather(1, index), real)

    def index_select(self, rows: Tensor) -> KVCache:
        """See BatchedState; the copy keeps the spare capacity."""
        return self._with_buffers(lambda buffer: buffer.index_select(self.length, rows), rows)

    def compact_(self, sentences: Tensor, num_sentences: int) -> KVCache:
        """See BatchedState; only rows that change their index are copied, over the rows that are dropped."""
        rows = row_indices(sentences, num_sentences, self.pos.size(0))  # [N]
        moved = (rows != torch.arange(rows.numel(), device=rows.device)).nonzero().squeeze(1)

        def compact(buffer: GrowableBuffer) -> GrowableBuffer:
            if buffer.data.requires_grad or rows.numel() > buffer.data.size(0):
                return buffer.index_select(self.length, rows)
            if moved.numel():
                buffer.in_memory_order(lambda data: data.index_copy_(0, moved, data.index_select(0, rows[moved])))
            return GrowableBuffer(buffer.data.narrow(0, 0, rows.numel()), buffer.used)

        return self._with_buffers(compact, rows)

    def _with_buffers(self, change: Callable[[GrowableBuffer], GrowableBuffer], rows: Tensor) -> KVCache:
        keys = change(self.keys)
        return replace(
            self,
            keys=keys,
            vals=keys if self.vals is self.keys else change(self.vals),
            pos=self.pos.index_select(0, rows),
            real=None if self.real is None else self.real.index_select(0, rows),
        )


def _concat_rows(parts: Sequence[Tensor], length: int, *, transposed: bool = False) -> GrowableBuffer:
    """Concatenate the rows of tensors [., G, at most length, K].

    The result is contiguous, since batched products copy any other layout in every call; or it is contiguous as
    [., G, K, length] if `transposed`, which halves the time of scores of a few queries.
    """
    first = parts[0]
    if len(parts) == 1 and first.requires_grad:
        return GrowableBuffer(first.contiguous(), length)
    rows, groups, capacity, width = sum(p.size(0) for p in parts), first.size(1), max(length, MIN_KEYS), first.size(3)
    if transposed:
        data = first.new_empty(rows, groups, width, capacity).mT
    else:
        data = first.new_empty(rows, groups, capacity, width)
    for part, target in zip(parts, torch.split(data, [part.size(0) for part in parts]), strict=True):
        target[:, :, : part.size(2)] = part
        target[:, :, part.size(2) :] = 0
    return GrowableBuffer(data, length)


@dataclass(frozen=True)
class SharedPrefixCache(AttentionState):
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
        """W, the hypotheses that share one row of `kv`."""
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
        sentences, length, mask = self.num_sentences, self.kv.length, self.mask
        if mask is None:
            mask = self.kv.k.new_zeros(sentences, 1, length)
        selected = mask.reshape(-1, length).index_select(0, rows).view(sentences, -1, length)  # [N, W', M]
        return SharedPrefixCache(self.kv, selected)

    def group_by_sentence(self, x: Tensor) -> Tensor:
        """Tensor of T new tokens per hypothesis [N·W, T, ...] -> [N, W·T, ...]."""
        return x if self.mask is None else x.reshape(self.num_sentences, self.beam_size * x.size(1), *x.shape[2:])

    def append(self, new: KVCache) -> SharedPrefixCache:
        """The cache with T more tokens of each hypothesis, [N, G, W·T, K]; none of them is padding."""
        if self.mask is None:
            return SharedPrefixCache(self.kv.append(new))
        kv, mask = self.kv, self.mask
        if kv.keys.data.size(2) - kv.length < new.length:
            # The buffers are to be copied to larger ones; what no hypothesis needs any more is dropped before.
            live = live_slots(mask)
            if live is not None:
                index, mask = live
                kv = kv.gather(index)
        # A new token belongs to its hypothesis alone: 0 on the diagonal, hidden from the W - 1 others.
        new_mask = mask.new_full((self.beam_size, self.beam_size), torch.finfo(mask.dtype).min)  # [W, W]
        new_mask = new_mask.fill_diagonal_(0)
        if new.length > self.beam_size:
            new_mask = new_mask.repeat_interleave(new.length // self.beam_size, dim=1)  # [W, W·T]
        mask = torch.cat([mask, new_mask.expand(self.num_sentences, -1, -1)], dim=2)  # [N, W, M + W·T]
        return SharedPrefixCache(kv.append(new), mask)

    def visible(self, pattern: AttentionPattern, q_pos: Tensor) -> Tensor | None:
        """See KVCache: what the pattern shows of the tokens of a query's hypothesis; q_pos [N, W·T]."""
        visible = self.kv.visible(pattern, q_pos)
        if self.mask is None:
            return visible
        ancestry = self.mask  # of the tokens of other hypotheses
        if q_pos.size(1) != self.beam_size:
            ancestry = ancestry.repeat_interleave(q_pos.size(1) // self.beam_size, dim=1)
        ancestry = ancestry.unsqueeze(1)  # [N, 1, W·T, M]
        return ancestry if visible is None else torch.where(visible, ancestry, torch.finfo(ancestry.dtype).min)


# States of self-attention with a key and a value for each token. Attention sees a batch of sequences, the rows of `kv`,
# and as many queries of each as its `beam_size` hypotheses have new tokens.
AttentionCache = KVCache | SharedPrefixCache


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
