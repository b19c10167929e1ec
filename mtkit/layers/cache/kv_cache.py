"""Key/value cache of attention: projected keys and values with their positions, in buffers that grow by appending.

The cache also multiplies by them (`scores`, `weighted_sum`), because it alone knows its memory: grouped heads, spare
capacity and padding to the width of vector registers. Constants were measured, see tests/benchmarks/NOTES.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.layers.cache.state import AttentionState, row_indices

AttentionPattern = Callable[[Tensor, Tensor], Tensor | None]  # see layers/attention/softmax.py
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

    def in_memory_order(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply `change`, which copies rows, to the data in the order of its memory (see `_concat_rows`)."""
        return change(self.data) if self.data.stride(3) == 1 else change(self.data.mT).mT


class AttentionCache(AttentionState):
    """Interface of the states that store keys and values: KVCache, SharedPrefixCache.

    Attention sees a batch of sequences of keys and queries with as many rows.

    Attributes:
        kv: keys and values, one row per sequence.
    """

    kv: KVCache

    @property
    def beam_size(self) -> int:
        """W, the hypotheses that share one row of `kv`."""
        raise NotImplementedError

    def append(self, new: KVCache) -> Self:
        """The cache with T more tokens of each hypothesis, [N, G, W·T, K]; none of them is padding."""
        raise NotImplementedError

    def visible(self, pattern: AttentionPattern, q_pos: Tensor) -> Tensor | None:
        """Attention mask of queries at q_pos [N, W·T].

        Returns:
            Bool [N, 1, 1 or W·T, S], True where a key may be attended to; or a mask of the scores' type that is added
            to them; or None if every key is visible.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class KVCache(AttentionCache):
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
    def kv(self) -> KVCache:  # type: ignore[override]
        """The cache itself."""
        return self

    @property
    def beam_size(self) -> int:
        """One: every hypothesis has a row."""
        return 1

    @property
    def k(self) -> Tensor:
        """[rows, G, S, K]."""
        return self.keys.first(self.length)

    @property
    def v(self) -> Tensor:
        """[rows, G, S, K]."""
        return self.vals.first(self.length)

    @property
    def spare_capacity(self) -> int:
        """Tokens that can be appended before the buffers are copied."""
        return self.keys.data.size(2) - self.length

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
        """See AttentionCache: what the pattern shows, without padding."""
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
        return self._with_buffers(lambda buffer: _index_select(buffer, self.length, rows), rows)

    def compact_(self, sentences: Tensor, num_sentences: int) -> KVCache:
        """See BatchedState; only rows that change their index are copied, over the rows that are dropped."""
        rows = row_indices(sentences, num_sentences, self.pos.size(0))  # [N]
        moved = (rows != torch.arange(rows.numel(), device=rows.device)).nonzero().squeeze(1)
        return self._with_buffers(lambda buffer: _compact(buffer, self.length, rows, moved), rows)

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


def _index_select(buffer: GrowableBuffer, length: int, rows: Tensor) -> GrowableBuffer:
    if buffer.data.requires_grad:
        return GrowableBuffer(buffer.data[:, :, :length].index_select(0, rows), length)
    return GrowableBuffer(buffer.in_memory_order(lambda data: data.index_select(0, rows)), length)


def _compact(buffer: GrowableBuffer, length: int, rows: Tensor, moved: Tensor) -> GrowableBuffer:
    """The rows [N]; only those at the indices `moved` are elsewhere in the buffer and have to be copied."""
    if buffer.data.requires_grad or rows.numel() > buffer.data.size(0):
        return _index_select(buffer, length, rows)
    if moved.numel():
        buffer.in_memory_order(lambda data: data.index_copy_(0, moved, data.index_select(0, rows[moved])))
    return GrowableBuffer(buffer.data.narrow(0, 0, rows.numel()), buffer.used)
