"""What attention remembers: projected keys and values with their positions, as a value that grows by appending."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mtkit.layers.cache.state import Rows, rows_of

LEAST_ROOM = 16  # places that a buffer gets beyond what is used, or ROOM of these: appending costs O(1) on average


LEAST_PLACES = 16  # that a buffer has, as products with fewer can be slower, see `KeyValues.places`


FEW_PRODUCTS = 400  # see `KeyValues.places`


ROOM = 0.5  # more makes every selection of rows dearer: it copies the whole capacity, in one stretch for each row


class Buffer:
    """Room for keys or values beyond what is used; `used` says how far some cache has already written into it."""

    def __init__(self, data: Tensor, used: int) -> None:
        self.data = data  # [rows, G, capacity, K]
        self.used = used

    def first(self, length: int) -> Tensor:
        """What is in the first places, [rows, G, length, K]."""
        return self.data if self.data.size(2) == length else self.data.narrow(2, 0, length)


def grown(buffer: Buffer, length: int, new: Tensor) -> Buffer:
    """A buffer that holds the first `length` places of `buffer` and then `new` [rows, G, T, K].

    Writes in place if nobody has written past `length`; else copies, so that a cache never changes under its holder.
    """
    total = length + new.size(2)
    if new.requires_grad or buffer.data.requires_grad:
        return Buffer(torch.cat([buffer.data[:, :, :length], new], dim=2), total)
    if buffer.used != length or buffer.data.size(2) < total:
        capacity = total + max(LEAST_ROOM, int(ROOM * total))
        data = new.new_empty(new.size(0), new.size(1), capacity, new.size(3))  # [rows, G, capacity, K]
        data.narrow(2, 0, length).copy_(buffer.data.narrow(2, 0, length))
        if total < LEAST_PLACES:
            data[:, :, total:LEAST_PLACES] = 0
        buffer = Buffer(data, length)
    buffer.data.narrow(2, length, new.size(2)).copy_(new)
    buffer.used = total
    return buffer


@dataclass(frozen=True)
class KeyValues(Rows):
    """Keys and values [rows, G, S, K] with the positions of their tokens and whether these are real.

    `pos` [rows, S] int64; `real` [rows, S] bool, or None if every place is.
    """

    keys: Buffer
    vals: Buffer
    length: int
    pos: Tensor
    real: Tensor | None

    @classmethod
    def of(cls, k: Tensor, v: Tensor, pos: Tensor, real: Tensor | None) -> KeyValues:
        """From tensors k and v [rows, G, S, K]."""
        return cls(keys=Buffer(k, k.size(2)), vals=Buffer(v, v.size(2)), length=k.size(2), pos=pos, real=real)

    @classmethod
    def joined(cls, parts: Sequence[KeyValues], pos: Tensor, real: Tensor | None) -> KeyValues:
        """The rows of all parts, which may be shorter than pos and real [rows, S]; laid out for many queries."""
        length, vals = pos.size(1), _joined([part.v for part in parts], pos.size(1))
        shared = all(part.vals is part.keys for part in parts)
        keys = vals if shared else _joined([part.k for part in parts], length, turned=True)
        return cls(keys=keys, vals=vals, length=length, pos=pos, real=real)

    @property
    def num_groups(self) -> int:
        """G."""
        return self.keys.data.size(1)

    @property
    def room(self) -> int:
        """Places that can be appended before everything is copied."""
        return self.keys.data.size(2) - self.length

    def places(self, queries: int) -> int:
        """How many places a product with so many queries should run over; what is beyond `length` is finite.

        torch 2.13 on a processor takes numbers one by one in matrices with fewer than 400 products: 800 times
        [1, 32] · [32, 10] took 210 µs, [1, 32] · [32, 16] 100 µs.
        """
        data = self.keys.data
        if self.length >= LEAST_PLACES or self.room == 0 or data.is_cuda:
            return self.length
        if queries * data.size(3) * self.length >= FEW_PRODUCTS:
            return self.length
        return max(self.length, min(LEAST_PLACES, self.length + self.room))

    @property
    def k(self) -> Tensor:
        """[rows, G, S, K]."""
        return self.keys.first(self.length)

    @property
    def v(self) -> Tensor:
        """[rows, G, S, K]."""
        return self.vals.first(self.length)

    def append(self, k: Tensor, v: Tensor, pos: Tensor) -> KeyValues:
        """With T real tokens more: k and v [rows, G, T, K], pos [rows, T]."""
        real = self.real
        if real is not None:
            real = torch.cat([real, torch.ones_like(pos, dtype=torch.bool)], dim=1)
        keys, vals = grown(self.keys, self.length, k), grown(self.vals, self.length, v)
        return KeyValues(keys, vals, self.length + k.size(2), torch.cat([self.pos, pos], dim=1), real)

    def last(self, count: int) -> KeyValues:
        """The last `count` places, or all if there are fewer; for reading."""
        first = max(0, self.length - count)
        real = None if self.real is None else self.real[:, first:]
        return KeyValues.of(self.k[:, :, first:], self.v[:, :, first:], self.pos[:, first:], real)

    def gather(self, place: Tensor) -> KeyValues:
        """The places [rows, T] of each row."""
        groups, width = self.k.size(1), self.k.size(3)
        index = place[:, None, :, None].expand(-1, groups, -1, width)  # [rows, G, T, K]
        real = None if self.real is None else self.real.gather(1, place)
        return KeyValues.of(self.k.gather(2, index), self.v.gather(2, index), self.pos.gather(1, place), real)

    def select(self, rows: Tensor) -> KeyValues:
        """The rows [N], in that order, with room to grow."""
        keys, vals = self._each(lambda buffer: _gather(buffer, self.length, rows))
        return replace(
            self,
            keys=keys,
            vals=vals,
            pos=self.pos.index_select(0, rows),
            real=None if self.real is None else self.real.index_select(0, rows),
        )

    def keep(self, sentences: Tensor, of: int) -> KeyValues:
        """See Rows; only the rows that change their place are copied, over others, so that `self` is used up."""
        rows = rows_of(sentences, of, self.pos.size(0))  # [N]
        moved = (rows != torch.arange(rows.numel(), device=rows.device)).nonzero().squeeze(1)
        keys, vals = self._each(lambda buffer: _kept(buffer, self.length, rows, moved))
        return replace(
            self,
            keys=keys,
            vals=vals,
            pos=self.pos.index_select(0, rows),
            real=None if self.real is None else self.real.index_select(0, rows),
        )

    def _each(self, change: Callable[[Buffer], Buffer]) -> tuple[Buffer, Buffer]:
        """Keys and values, changed; what is both stays both."""
        keys = change(self.keys)
        return keys, keys if self.vals is self.keys else change(self.vals)


def _joined(parts: Sequence[Tensor], length: int, *, turned: bool = False) -> Buffer:
    """Tensors [., G, at most length, K], one after another; contiguous, as products would copy others each time.

    If `turned` they lie as [., G, K, length]: the scores of five queries of 32 numbers then take half the time.
    """
    first = parts[0]
    if len(parts) == 1 and first.requires_grad:
        return Buffer(first.contiguous(), length)
    shape = (sum(part.size(0) for part in parts), first.size(1), max(length, LEAST_PLACES), first.size(3))
    data = first.new_empty(shape[0], shape[1], shape[3], shape[2]).mT if turned else first.new_empty(shape)
    for part, place in zip(parts, torch.split(data, [part.size(0) for part in parts]), strict=True):
        place[:, :, : part.size(2)] = part
        place[:, :, part.size(2) :] = 0
    return Buffer(data, length)


def _gather(buffer: Buffer, length: int, rows: Tensor) -> Buffer:
    if buffer.data.requires_grad:
        return Buffer(buffer.data[:, :, :length].index_select(0, rows), length)
    return Buffer(_as_it_lies(buffer, lambda data: data.index_select(0, rows)), length)


def _kept(buffer: Buffer, length: int, rows: Tensor, moved: Tensor) -> Buffer:
    """The rows [N], of which those at the places `moved` are not there yet."""
    if buffer.data.requires_grad or rows.numel() > buffer.data.size(0):
        return _gather(buffer, length, rows)
    if moved.numel():
        _as_it_lies(buffer, lambda data: data.index_copy_(0, moved, data.index_select(0, rows[moved])))
    return Buffer(buffer.data.narrow(0, 0, rows.numel()), buffer.used)


def _as_it_lies(buffer: Buffer, change: Callable[[Tensor], Tensor]) -> Tensor:
    """`change` of the buffer's numbers in the order in which memory has them."""
    data = buffer.data
    return change(data) if data.stride(3) == 1 else change(data.mT).mT
