"""State of a decoder in the native library: keys and values of the source and of the preceding tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from mtkit.inference.native.packing import address
from mtkit.inference.native.structures import KeysValues
from mtkit.layers.cache.state import BatchedState

MIN_CAPACITY = 16  # tokens of a hypothesis in the first cache; at least 2: a full one is doubled
DEAD_FRACTION = 4  # slots are renumbered if at least one in four belongs to no hypothesis any more


def keys_values(layers: Sequence[tuple[Tensor, Tensor]]) -> Any:
    """The structures of keys and values of each layer."""
    return (KeysValues * len(layers))(*(KeysValues(address(k), address(v)) for k, v in layers))


@lru_cache(maxsize=64)
def hypothesis_numbers(sentences: int, width: int) -> Tensor:
    """0 ... W - 1 for the hypotheses of each sentence, [N·W, 1] int32; must not be changed."""
    return torch.arange(width, dtype=torch.int32).repeat(sentences).unsqueeze(1)


@lru_cache(maxsize=64)
def sentence_numbers(sentences: int, width: int) -> Tensor:
    """The sentence of each hypothesis, [N·W] int32; must not be changed."""
    return torch.arange(sentences, dtype=torch.int32).repeat_interleave(width)


@dataclass(frozen=True)
class NativeMemory(BatchedState):
    """Keys and values of the sources of N sentences; no sentence is ever moved.

    Attributes:
        layers: keys and values of each layer, floats in the order of c/attention.h.
        structures: the same for the library.
        lengths: [N] int32, tokens of each source.
        offsets: [N] int64, tokens, padding included, before each sentence.
        columns: [N, S] index of the token in each column of the source, -1 for padding; None: tokens come first.
        source_length: S.
    """

    layers: tuple[tuple[Tensor, Tensor], ...]
    structures: Any
    lengths: Tensor
    offsets: Tensor
    columns: Tensor | None
    source_length: int

    def compact_(self, sentences: Tensor, num_sentences: int) -> NativeMemory:
        """See BatchedState."""
        columns = None if self.columns is None else self.columns[sentences]
        return replace(self, lengths=self.lengths[sentences], offsets=self.offsets[sentences], columns=columns)

    def to_columns(self, attention: Tensor, width: int) -> Tensor:
        """Attention [N·W, H, S] over the tokens of each source as attention over its columns."""
        if self.columns is None:
            return attention
        index = self.columns.repeat_interleave(width, dim=0).unsqueeze(1).expand_as(attention)
        return attention.gather(2, index.clamp(min=0)).masked_fill(index < 0, 0)


class CacheBuffer:
    """Keys and values [N, capacity, H·K] of each layer.

    Attributes:
        layers: keys and values of each layer.
        structures: the same for the library.
        used: slots that some cache has already written.
    """

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor]], used: int) -> None:
        self.layers = tuple(layers)
        self.structures: Any = keys_values(self.layers)
        self.used = used

    @property
    def capacity(self) -> int:
        """Slots of each sentence."""
        return self.layers[0][0].size(1)


@dataclass(frozen=True)
class NativeCache(BatchedState):
    """Keys and values of all tokens of N sentences, each stored once, in a slot; hypotheses list their slots.

    Hypotheses with a common prefix share its keys: reordering a beam copies only the lists. Sentences that leave the
    batch stay in the buffer until it grows.

    Attributes:
        buffer: keys and values.
        storage: [N] int32, index of each sentence in the buffer.
        slots: [N·W, T] int32, the slots of the tokens of each hypothesis; None: W is 1, and the slots are 0, 1, 2 ...
        length: T, tokens of each hypothesis.
        used: slots of each sentence that are in use.
        width: W.
    """

    buffer: CacheBuffer
    storage: Tensor
    slots: Tensor | None
    length: int
    used: int
    width: int

    @classmethod
    def empty(cls, widths: Sequence[int], sentences: int) -> NativeCache:
        """A cache without tokens; `widths` are H·K of each layer."""
        layers = [(torch.empty(sentences, 0, width), torch.empty(sentences, 0, width)) for width in widths]
        return cls(CacheBuffer(layers, 0), torch.arange(sentences, dtype=torch.int32), None, 0, 0, 1)

    def index_select(self, rows: Tensor) -> NativeCache:
        """See BatchedState: the lists of slots alone change."""
        sentences = self.storage.numel()
        width = rows.numel() // max(1, sentences)
        if self.slots is None:
            if width == self.width:
                return self
            slots = torch.arange(self.length, dtype=torch.int32).expand(rows.numel(), -1)
        else:
            slots = self.slots.index_select(0, rows)
        return NativeCache(self.buffer, self.storage, slots, self.length, self.used, width)

    def compact_(self, sentences: Tensor, num_sentences: int) -> NativeCache:
        """See BatchedState."""
        slots = self.slots
        if slots is not None:
            slots = slots.view(num_sentences, self.width, -1)[sentences].flatten(0, 1)
        return replace(self, storage=self.storage[sentences], slots=slots)

    def extended(self) -> NativeCache:
        """The cache with a slot for one more token of each hypothesis, which the caller writes.

        The slots are in the same buffer unless another cache has written there, or they are used up. No cache therefore
        changes while it is in use.
        """
        cache = self
        if self.buffer.used != self.used or self.buffer.capacity < self.used + self.width:
            cache = self._without_dead_slots()._copied()
        cache.buffer.used = used = cache.used + cache.width
        slots = cache.slots
        if slots is not None:
            new = hypothesis_numbers(cache.storage.numel(), cache.width) + cache.used
            slots = torch.cat([slots, new], dim=1)
        return NativeCache(cache.buffer, cache.storage, slots, self.length + 1, used, cache.width)

    def _copied(self) -> NativeCache:
        """The cache in a buffer of its own, of these sentences alone, with spare capacity."""
        capacity = max(MIN_CAPACITY * self.width, 2 * self.used)

        def grown(old: Tensor) -> Tensor:
            new = old.new_empty(self.storage.numel(), capacity, old.size(2))
            new[:, : self.used] = old[self.storage, : self.used]
            return new

        buffer = CacheBuffer([(grown(k), grown(v)) for k, v in self.buffer.layers], self.used)
        return replace(self, buffer=buffer, storage=torch.arange(self.storage.numel(), dtype=torch.int32))

    def _without_dead_slots(self) -> NativeCache:
        """The cache without the tokens of dropped hypotheses, if there are many."""
        if self.slots is None or not self.used:
            return self
        sentences = self.storage.numel()
        slots = self.slots.reshape(sentences, -1).long()  # [N, W·T]
        is_live = torch.zeros(sentences, self.used, dtype=torch.bool).scatter_(1, slots, True)
        used = int(is_live.sum(1).max())
        if (self.used - used) * DEAD_FRACTION < self.used:
            return self
        kept = is_live.logical_not().to(torch.uint8).sort(dim=1, stable=True).indices[:, :used]  # [N, M'], live first
        number = is_live.int().cumsum(1).sub_(1)  # [N, M]
        layers = [
            tuple(each[self.storage[:, None], kept] for each in pair)  # [N, M', H·K]
            for pair in self.buffer.layers
        ]
        return replace(
            self,
            buffer=CacheBuffer(layers, used),  # type: ignore[arg-type]
            storage=torch.arange(sentences, dtype=torch.int32),
            slots=number.gather(1, slots).int().view(self.slots.shape),
            used=used,
        )
