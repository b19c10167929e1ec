"""What the attention of hypotheses remembers when many of them begin alike: every token once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.state import Rows


@dataclass(frozen=True)
class KeyTree(Rows):
    """Keys and values of the tokens of N trees of hypotheses, W in each.

    Hypotheses that go on from the same one share its tokens, so that selecting among those of a tree moves no keys,
    only the mask of the tokens that lie on the way of each. To attention a tree is one sequence: T new tokens of each
    hypothesis are W·T queries against one row of keys. What lies on no way any more is dropped when room is needed.

    Attributes:
        nodes: keys and values [N, G, M, K] of all tokens.
        mask: [N, W, M], what is added to the scores of a hypothesis: 0 for the tokens that are its own, the least
            number for others; None: all of its tree are, which has no other.
    """

    nodes: KeyValues
    mask: Tensor | None = None

    @property
    def num_trees(self) -> int:
        """N."""
        return self.nodes.pos.size(0)

    @property
    def width(self) -> int:
        """W."""
        return 1 if self.mask is None else self.mask.size(1)

    def select(self, rows: Tensor) -> KeyTree:
        """The hypotheses [N·W'], in that order; those of a tree stay together, and every tree has as many."""
        if self.mask is None and rows.numel() == self.num_trees:
            return self
        mask = self.mask
        if mask is None:
            mask = self.nodes.k.new_zeros(self.nodes.pos.shape)  # [N, M]
        chosen = mask.view(-1, self.nodes.length).index_select(0, rows)  # [N·W', M]
        return KeyTree(self.nodes, chosen.view(self.num_trees, -1, self.nodes.length))

    def together(self, x: Tensor) -> Tensor:
        """What there is of T new tokens of each hypothesis, [N·W, T, ...], tree by tree: [N, W·T, ...]."""
        return x if self.mask is None else x.reshape(self.num_trees, self.width * x.size(1), *x.shape[2:])

    def append(self, new: KeyValues) -> KeyTree:
        """With T real tokens more of each hypothesis, [N, G, W·T, K]."""
        if self.mask is None:
            return KeyTree(self.nodes.append(new.k, new.v, new.pos))
        nodes, mask = self._pruned() if self.nodes.room < new.length else (self.nodes, self.mask)
        trees, width = self.num_trees, self.width
        own = mask.new_full((width, width), torch.finfo(mask.dtype).min).fill_diagonal_(0)  # [W, W]
        if new.length > width:
            own = own.repeat_interleave(new.length // width, dim=1)  # [W, W·T]
        return KeyTree(nodes.append(new.k, new.v, new.pos), torch.cat([mask, own.expand(trees, -1, -1)], dim=2))

    def mask_of(self, queries: int) -> Tensor | None:
        """The mask of so many queries of each tree, W·T, which does not know their order, [N, W·T, M]; None: none."""
        if self.mask is None or self.width == queries:
            return self.mask
        return self.mask.repeat_interleave(queries // self.width, dim=1)

    def _pruned(self) -> tuple[KeyValues, Tensor]:
        """Nodes and mask without what is on no way, if that is most; trees keep equal numbers of nodes."""
        if self.mask is None:
            raise ValueError("a tree of one hypothesis has nothing to drop")
        used = (self.mask == 0).any(1)  # [N, M]
        most = int(used.sum(1).max()) if used.numel() else 0
        if 2 * most > self.nodes.length:
            return self.nodes, self.mask
        place = used.int().sort(dim=1, descending=True, stable=True).indices[:, :most]  # [N, most]
        kept = self.mask.gather(2, place.unsqueeze(1).expand(-1, self.mask.size(1), -1))  # [N, W, most]
        return self.nodes.gather(place), kept


def by_tree(x: Tensor, trees: int) -> Tensor:
    """[N·W, H, T, K] -> [N, H, W·T, K]."""
    rows, heads, length, width = x.shape
    if rows == trees:
        return x
    each = rows // max(1, trees)  # W
    grouped = x.reshape(trees, each, heads, length, width).transpose(1, 2)  # [N, H, W, T, K]
    return grouped.reshape(trees, heads, each * length, width)


def by_row(x: Tensor, length: int) -> Tensor:
    """[N, H, W·T, K] -> [N·W, H, T, K]."""
    trees, heads, places, width = x.shape
    if places == length:
        return x
    grouped = x.reshape(trees, heads, places // length, length, width).transpose(1, 2)  # [N, W, H, T, K]
    return grouped.reshape(trees * (places // length), heads, length, width)
