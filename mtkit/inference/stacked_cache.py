"""Keys and values of all layers of a decoder with one mask, for the fused decoder step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.layers.cache.kv_cache import GROWTH, MIN_KEYS, MIN_SPARE
from mtkit.layers.cache.shared_prefix import live_slots, select_hypotheses
from mtkit.layers.cache.state import BatchedState, row_indices


class StackedBuffer:
    """Keys and values [2, N, H, capacity, K] of each layer.

    Of the slots that were never written, only the first MIN_KEYS are zero; products read no others.

    Layers may differ in H. One tensor of all layers would save copies when sentences move, but none of its orders of
    axes would let a batched product read a layer without copying it, once layers differ and sentences have left.

    Attributes:
        used: slots that some cache has already written.
    """

    def __init__(self, layers: Iterable[Tensor], used: int) -> None:
        self.layers = tuple(layers)
        self.used = used

    @property
    def num_sentences(self) -> int:
        """N."""
        return self.layers[0].size(1)

    @property
    def capacity(self) -> int:
        """Slots of each head."""
        return self.layers[0].size(3)


@dataclass(frozen=True)
class StackedCache(BatchedState):
    """State of SharedPrefixCache for all layers at once: one mask, and one copy to move sentences.

    Attributes:
        buffer: keys and values of N sentences.
        length: M, slots that are in use.
        next_pos: position of the next token, the same for all hypotheses.
        mask: [N, W, M], see SharedPrefixCache; None: one hypothesis per sentence.
    """

    buffer: StackedBuffer
    length: int
    next_pos: int
    mask: Tensor | None = None

    @classmethod
    def empty(cls, heads: Sequence[int], sentences: int, width: int, like: Tensor) -> StackedCache:
        """A cache without tokens, of the type and device of `like`; `heads` of each layer, K = width."""
        return cls(StackedBuffer((like.new_zeros(2, sentences, count, 0, width) for count in heads), 0), 0, 0)

    @property
    def num_sentences(self) -> int:
        """N."""
        return self.buffer.num_sentences

    @property
    def beam_size(self) -> int:
        """W."""
        return 1 if self.mask is None else self.mask.size(1)

    @property
    def padded_length(self) -> int:
        """Slots that products run over: at least MIN_KEYS, which is faster; slots beyond M have to be masked."""
        return max(self.length, MIN_KEYS)

    def index_select(self, rows: Tensor) -> StackedCache:
        """See SharedPrefixCache: the mask alone changes; without tokens each row becomes a sentence of its own."""
        if not self.length:
            layers, sentences = self.buffer.layers, rows.numel()
            return StackedCache.empty([each.size(2) for each in layers], sentences, layers[0].size(4), layers[0])
        if self.mask is None and rows.numel() == self.num_sentences:
            return self
        mask = self.mask
        if mask is None:
            mask = self.buffer.layers[0].new_zeros(self.num_sentences, 1, self.length)
        return replace(self, mask=select_hypotheses(mask, rows))

    def compact_(self, sentences: Tensor, num_sentences: int) -> StackedCache:
        """See BatchedState; only sentences that change their index are copied, over those that are dropped."""
        kept = row_indices(sentences, num_sentences, self.num_sentences)  # [N']
        moved = (kept != torch.arange(kept.numel(), device=kept.device)).nonzero().squeeze(1)
        if moved.numel():
            for layer in self.buffer.layers:
                in_use = layer[..., : self.length, :]
                in_use.index_copy_(1, moved, in_use.index_select(1, kept[moved]))
        mask = None if self.mask is None else self.mask.index_select(0, kept)
        narrowed = (layer.narrow(1, 0, kept.numel()) for layer in self.buffer.layers)
        return replace(self, buffer=StackedBuffer(narrowed, self.buffer.used), mask=mask)

    def extended(self) -> StackedCache:
        """The cache with a slot for one more token of each hypothesis, to be written by `append` in each layer.

        The slots are in the same buffer unless another cache has written there, or they are used up. No cache therefore
        changes while it is in use.
        """
        cache = self
        if self.buffer.used != self.length or self.buffer.capacity < self.length + self.beam_size:
            cache = self._drop_dead()._copied()
        total = cache.length + cache.beam_size
        cache.buffer.used = total
        return replace(cache, length=total, next_pos=cache.next_pos + 1, mask=cache._next_mask())

    def append(self, layer: int, new: Tensor) -> tuple[Tensor, Tensor]:
        """Write the keys and values [N, W, 2, H, K] of the last token of each hypothesis.

        Returns:
            All keys and all values of the layer, [N·H, padded length, K].
        """
        width = self.beam_size
        stored = self.buffer.layers[layer]  # [2, N, H, capacity, K]
        stored.narrow(3, self.length - width, width).copy_(new.permute(2, 0, 3, 1, 4))
        keys, vals = stored.narrow(3, 0, self.padded_length).flatten(1, 2).unbind()
        return keys, vals

    def slot_mask(self) -> Tensor | None:
        """Additive mask [N or 1, 1, W or 1, padded length] of slots of other hypotheses and of those not in use."""
        missing = self.padded_length - self.length
        mask = self.mask
        if mask is None:
            if not missing:
                return None
            mask = self.buffer.layers[0].new_zeros(1, 1, self.length)
        return F.pad(mask, (0, missing), value=torch.finfo(mask.dtype).min).unsqueeze(1)

    def _next_mask(self) -> Tensor | None:
        """The mask after one more token, which belongs to its own hypothesis alone, [N, W, M + W]."""
        if self.mask is None:
            return None
        mask = F.pad(self.mask, (0, self.beam_size), value=torch.finfo(self.mask.dtype).min)
        mask.narrow(2, self.length, self.beam_size).diagonal(dim1=1, dim2=2).zero_()
        return mask

    def _copied(self) -> StackedCache:
        """The cache in a buffer of its own, with spare capacity."""
        total = self.length + self.beam_size
        capacity = max(MIN_KEYS, total + max(MIN_SPARE, int(GROWTH * total)))
        layers = []
        for old in self.buffer.layers:
            *shape, _, width = old.shape
            new = old.new_empty(*shape, capacity, width)
            new[..., : self.length, :] = old[..., : self.length, :]
            new[..., total:MIN_KEYS, :] = 0  # products read these slots; they must be finite
            layers.append(new)
        return replace(self, buffer=StackedBuffer(layers, self.length))

    def _drop_dead(self) -> StackedCache:
        """The cache without the tokens of dropped hypotheses, see `live_slots`."""
        live = live_slots(self.mask) if self.mask is not None and self.length else None
        if live is None:
            return self
        index, mask = live
        length = index.size(1)  # M'
        slots = index[None, :, None, :, None]  # [1, N, 1, M', 1]
        layers = [each.gather(3, slots.expand(2, -1, each.size(2), -1, each.size(4))) for each in self.buffer.layers]
        return replace(self, buffer=StackedBuffer(layers, length), length=length, mask=mask)
