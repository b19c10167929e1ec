"""Attention within a window, in blocks, at a cost that grows with the length and not with its square."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from mtkit.layers.attention.global_tokens import Landmarks, Places
from mtkit.layers.attention.kernel import SelfKernel, with_new
from mtkit.layers.attention.masks import Window, causal
from mtkit.layers.attention.multi_head import SelfAttention, SelfAttentionParts
from mtkit.layers.attention.softmax import Weighing
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.state import Rows
from mtkit.layers.positions.base import Position

SMALLEST_BLOCK = 64  # places; products of smaller matrices waste a processor


@dataclass(frozen=True)
class Sight:
    """A window, and landmarks that are seen from beyond it; with `after` 0 nothing is that comes later."""

    window: Window
    landmarks: Landmarks

    def __call__(self, q_pos: Tensor, keys: KeyValues, landmark: Tensor) -> Tensor:
        """What queries at q_pos [B, T] see, [B, 1, T, S], of keys some of which are landmarks [B, S]; as a whole."""
        visible = self.window(q_pos, keys.pos) | self.far(q_pos, keys.pos, landmark)  # [B, T, S]
        return (visible if keys.real is None else visible & keys.real.unsqueeze(1)).unsqueeze(1)

    def far(self, q_pos: Tensor, k_pos: Tensor, landmark: Tensor) -> Tensor:
        """Which of the keys are landmarks [B, S] that the queries may see, [B, 1 or T, S]."""
        chosen = landmark.unsqueeze(1)
        return chosen if self.window.after else chosen & causal(q_pos, k_pos)


class BlockAttention(SelfKernel):
    """Sliding-window attention, with or without landmarks, O(n·(w + landmarks)) in time and memory.

    Beltagy, Peters & Cohan 2020, sec. 3.1. https://arxiv.org/abs/2004.05150
    The queries of a block meet the keys of that block, those a window away, and the landmarks, in one softmax. Blocks
    are folded into the batch, so that every position scheme works unchanged and no T x S score exists. A sequence
    hardly longer than its window is one block. A cached step looks at the end of the cache only, unless there are
    landmarks, which may be anywhere in it.
    """

    def __init__(self, *, position: Position, sight: Sight, dropout: float) -> None:
        super().__init__()
        self.weigh = Weighing(position, dropout)
        self.sight = sight

    def attend(self, q: Tensor, new: KeyValues, past: Rows | None) -> tuple[Tensor, Rows]:
        """See SelfKernel; all keys and values are remembered."""
        find = self.sight.landmarks.find
        if past is None:
            return self.look(q, new, find(new.pos, new.real)), new
        keys = with_new(past, new)
        can_be_cut = keys.real is None and not self.sight.landmarks.exist
        near = keys.last(self.sight.window.before + new.length) if can_be_cut else keys
        y, _ = self.weigh(q, new.pos, near, self.sight(new.pos, near, find(near.pos, near.real)))
        return y, keys

    def look(self, q: Tensor, keys: KeyValues, landmark: Tensor) -> Tensor:
        """[B, H, T, K] of queries that stand where the keys do, some of which are landmarks [B, T]."""
        window = self.sight.window
        if keys.length <= max(SMALLEST_BLOCK, window.before + window.after):
            return self.weigh(q, keys.pos, keys, self.sight(keys.pos, keys, landmark))[0]  # type: ignore[no-any-return]
        if in_order(keys):
            return self.in_blocks(q, keys, landmark)
        order = _order(keys)
        y = self.in_blocks(order.gather(q, 2), _gathered(keys, order), order.gather(landmark, 1))
        return Places(order.index.argsort(1), order.real).gather(y, 2)

    def in_blocks(self, q: Tensor, keys: KeyValues, landmark: Tensor) -> Tensor:
        """The same where all stand in order, whatever their number."""
        window = self.sight.window
        size = max(SMALLEST_BLOCK, window.before, window.after)
        blocks = Blocks(keys.length, size, before=window.before, after=window.after)
        real = torch.ones_like(keys.pos, dtype=torch.bool) if keys.real is None else keys.real
        # positions of padding follow their neighbours, so that no scheme meets a distance beyond the window
        pos = keys.pos.masked_fill(~real, -1).cummax(1).values  # [B, S]
        q_pos = as_places(blocks.fold(as_heads(pos)))  # [B·N, C]
        k_pos = as_places(blocks.fold_seen(as_heads(pos)))  # [B·N, M]
        visible = self.sight.window(q_pos, k_pos)  # [B·N, C, M]
        near = as_places(blocks.fold_seen(as_heads(real)))
        k, v = blocks.fold_seen(keys.k), blocks.fold_seen(keys.v)  # [B·N, G, M, K]
        if self.sight.landmarks.exist:
            near = near & ~as_places(blocks.fold_seen(as_heads(landmark)))
            places = Places.of(landmark)
            far_pos = blocks.repeat(places.gather(pos, 1))  # [B·N, L]
            far = self.sight.far(q_pos, far_pos, blocks.repeat(places.real)).expand(-1, size, -1)  # [B·N, C, L]
            k = torch.cat([k, blocks.repeat(places.gather(keys.k, 2))], dim=2)  # [B·N, G, M + L, K]
            v = torch.cat([v, blocks.repeat(places.gather(keys.v, 2))], dim=2)
            k_pos = torch.cat([k_pos, far_pos], dim=1)
            visible = torch.cat([visible & near.unsqueeze(1), far], dim=2)
        else:
            visible = visible & near.unsqueeze(1)
        y, _ = self.weigh(blocks.fold(q), q_pos, KeyValues.of(k, v, k_pos, None), visible.unsqueeze(1))
        return blocks.unfold(y, q.size(0))


def in_order(keys: KeyValues) -> bool:
    """Whether no two tokens are farther apart in places than in positions, as without padding between them."""
    lead = keys.pos - torch.arange(keys.length, device=keys.pos.device)  # [B, S]
    if keys.real is None:
        return bool((lead[:, 1:] >= lead[:, :-1]).all())
    lowest = torch.iinfo(lead.dtype).min
    running = lead.masked_fill(~keys.real, lowest).cummax(1).values
    return bool(((lead >= running) | ~keys.real).all())


def _order(keys: KeyValues) -> Places:
    """The places in order of their positions, padding last."""
    real = torch.ones_like(keys.pos, dtype=torch.bool) if keys.real is None else keys.real
    index = keys.pos.masked_fill(~real, torch.iinfo(keys.pos.dtype).max).argsort(dim=1, stable=True)
    return Places(index, torch.ones_like(real))


def _gathered(keys: KeyValues, places: Places) -> KeyValues:
    real = None if keys.real is None else places.gather(keys.real, 1)
    return KeyValues.of(places.gather(keys.k, 2), places.gather(keys.v, 2), places.gather(keys.pos, 1), real)


@dataclass(frozen=True)
class Blocks:
    """N blocks of C places; block n looks at the M places from `before` ahead of it to `after` behind it.

    All functions take [B, H, T, K] and fold to [B·N, H, C or M, K]; what sticks out of the sequence is zero.
    """

    length: int  # T
    size: int  # C
    before: int
    after: int

    @property
    def count(self) -> int:
        """N."""
        return -(-self.length // self.size)

    @property
    def rest(self) -> int:
        """Places of the last block that stick out of the sequence."""
        return self.count * self.size - self.length

    def fold(self, x: Tensor) -> Tensor:
        """Each block's own places: [B·N, H, C, K]."""
        cut = torch.unflatten(F.pad(x, (0, 0, 0, self.rest)), 2, (self.count, self.size))  # [B, H, N, C, K]
        return cut.movedim(2, 1).flatten(0, 1)

    def fold_seen(self, x: Tensor) -> Tensor:
        """The places that each block looks at: [B·N, H, M, K]."""
        padded = F.pad(x, (0, 0, self.before, self.rest + self.after))
        cut = padded.unfold(2, self.before + self.size + self.after, self.size)  # [B, H, N, K, M]
        return cut.permute(0, 2, 1, 4, 3).flatten(0, 1)

    def repeat(self, x: Tensor) -> Tensor:
        """The same for every block: x [B, ...] -> [B·N, ...]."""
        return x.unsqueeze(1).expand(-1, self.count, *[-1] * (x.dim() - 1)).flatten(0, 1)

    def unfold(self, y: Tensor, batch: int) -> Tensor:
        """What `fold` cut, together again: [B·N, H, C, K] -> [B, H, T, K]."""
        cut = y.view(batch, self.count, *y.shape[1:]).movedim(1, 2)  # [B, H, N, C, K]
        return cut.flatten(2, 3)[:, :, : self.length]


def as_heads(x: Tensor) -> Tensor:
    """[B, T] -> [B, 1, T, 1]."""
    return x[:, None, :, None]


def as_places(x: Tensor) -> Tensor:
    """[B, 1, T, 1] -> [B, T]."""
    return x[:, 0, :, 0]


@dataclass(frozen=True, kw_only=True)
class WindowAttentionConfig:
    """A sliding window (see BlockAttention)."""

    kind: Literal["window"] = "window"
    width: Annotated[int, Field(gt=0)] = 64  # positions to each side; in a decoder, before

    def build(self, parts: SelfAttentionParts) -> SelfAttention:
        """The layer."""
        sight = Sight(parts.window(self.width), Landmarks())
        return parts.around(BlockAttention(position=parts.position, sight=sight, dropout=parts.dropout))


@dataclass(frozen=True, kw_only=True)
class StridedAttentionConfig:
    """A sliding window, and beyond it the last of every `stride` positions; cheapest where stride² is the length.

    Child et al. 2019, sec. 4.2, the "fixed" columns (c = 1) with a sliding window in place of fixed blocks.
    https://arxiv.org/abs/1904.10509 . The cost is O(n·(stride + n/stride)).
    """

    kind: Literal["strided"] = "strided"
    stride: Annotated[int, Field(gt=1)] = 32  # positions between columns, and width of the window to each side

    def build(self, parts: SelfAttentionParts) -> SelfAttention:
        """The layer."""
        sight = Sight(parts.window(self.stride), Landmarks(every=self.stride))
        return parts.around(BlockAttention(position=parts.position, sight=sight, dropout=parts.dropout))
