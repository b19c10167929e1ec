"""Attention within a window, in blocks, at a cost that grows with the length and not with its square."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.layers.blocks import Blocks, as_heads, as_places
from mtkit.layers.kernel import SelfKernel, with_new
from mtkit.layers.key_values import KeyValues
from mtkit.layers.landmark import Landmarks, Places
from mtkit.layers.pattern import Window, causal
from mtkit.layers.position import Position
from mtkit.layers.rows import Rows
from mtkit.layers.softmax_attention import Weighing

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
