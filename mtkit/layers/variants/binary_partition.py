"""BP-Transformer: attention to near tokens, and to spans of a binary tree that grow with the distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.layers.attention import AttentionKernel, AttentionParts
from mtkit.layers.cache import KVCache
from mtkit.layers.softmax import DotProductAttention
from mtkit.layers.variants.sliding_window import GatheredTokens, by_position

if TYPE_CHECKING:
    from mtkit.layers.variants.config import BinaryPartitionConfig


BLOCK = 64  # queries; products of smaller matrices leave a processor idle


@dataclass(frozen=True)
class BinaryPartition:
    """Nodes that a query attends to; node m of level l is the span of tokens m · 2^l ... (m + 1) · 2^l - 1.

    Level 0 are the `count` tokens to each side, and the query itself. Each level adds `count` spans beyond those of the
    level below, or one more, so that it ends where a span of the next level begins: every token is in exactly one node.
    In a decoder (`causal`) there is only the left side.
    """

    count: int
    causal: bool

    def ends(self, rank: Tensor, level: int) -> tuple[Tensor, Tensor]:
        """First token, and the one after the last, that are covered up to a level; `rank` is the query's number."""
        left, right = rank, rank + 1
        for each in range(level + 1):
            left, right = left - (self.count << each), right + (self.count << each)
            left, right = (left >> each + 1) << each + 1, -((-right >> each + 1) << each + 1)
        return left, rank + 1 if self.causal else right

    def visible(self, rank: Tensor, node: Tensor, level: int) -> Tensor:
        """Visibility of the nodes of a level to the queries `rank`, of broadcast shape."""
        first, end = node << level, (node + 1) << level
        left, right = self.ends(rank, level)
        if level == 0:
            return (first >= left) & (first < right)
        inner_left, inner_right = self.ends(rank, level - 1)
        on_the_left = (first >= left) & (end <= inner_left)
        return on_the_left if self.causal else on_the_left | ((first >= inner_right) & (end <= right))


@dataclass(frozen=True)
class Nodes:
    """Keys and values of all nodes of the tree, level after level."""

    kv: KVCache  # [B, G, P, K]; `real` is False for spans without a token
    sizes: tuple[int, ...]  # nodes of each level

    @classmethod
    def of(cls, kv: KVCache) -> Nodes:
        """Means over the real tokens of each span; the position of a span is the mean of theirs, rounded down."""
        real = torch.ones_like(kv.pos, dtype=torch.bool) if kv.real is None else kv.real  # [B, S]
        keep = real[:, None, :, None]  # [B, 1, S, 1]
        sums = [kv.k * keep, kv.v * keep, (kv.pos * real)[:, None, :, None], real.long()[:, None, :, None]]
        levels = [sums]
        while sums[0].size(2) > 1:
            pairs = [torch.unflatten(F.pad(x, (0, 0, 0, x.size(2) % 2)), 2, (-1, 2)) for x in sums]  # [B, G, S/2, 2, K]
            sums = [x.sum(3) for x in pairs]
            levels.append(sums)
        k, v, pos, count = (torch.cat(each, 2) for each in zip(*levels, strict=True))
        tokens = count.clamp(min=1)
        flat_pos, has_token = (pos // tokens)[:, 0, :, 0], (count > 0)[:, 0, :, 0]  # [B, P]
        return cls(KVCache.of(k / tokens, v / tokens, flat_pos, has_token), tuple(each[0].size(2) for each in levels))


class BinaryPartitionAttention(AttentionKernel[KVCache]):
    """Attention to O(k · log n) nodes: near tokens one by one, distant ones in spans. O(k · n · log n).

    Ye et al. 2019, sec. 3. https://arxiv.org/abs/1911.04070 A span's key and value are the means over its tokens. In
    the paper a span has a state of its own, which attends to its tokens: with the zero state that it begins with, that
    is their mean. Here spans are formed from the tokens in each layer, and no state of a span is carried from layer to
    layer; and a level has one span more where it would otherwise overlap the next. A decoding step forms the spans
    from the whole cache.
    """

    def __init__(self, config: BinaryPartitionConfig, parts: AttentionParts) -> None:
        super().__init__(config, parts)
        self.dot_product = DotProductAttention(parts.position, parts.dropout)
        self.partition = BinaryPartition(config.span_count, parts.causal)

    def forward(self, q: Tensor, new: KVCache, past: KVCache | None) -> tuple[Tensor, KVCache]:
        """See AttentionKernel; the state holds all keys and values."""
        cache = new if past is None else past.append(new)
        if not cache.length:
            return q.new_zeros(*q.shape[:3], new.v.size(3)), cache
        # Spans are runs of neighbours in the sentence, so tokens are ordered by position, padding last.
        order = by_position(cache)
        kv = cache.gather(order.index)
        nodes = Nodes.of(kv)
        if past is None and cache.length > BLOCK:
            y = self.attend_blocked(order.gather(q, 2), kv.pos, nodes)
            return GatheredTokens(order.index.argsort(1), order.real).gather(y, 2), cache
        rank = order.index.argsort(1)[:, -new.length :]  # [B, T]
        return self.attend_dense(q, rank, new.pos, nodes), cache

    def attend_dense(self, q: Tensor, rank: Tensor, q_pos: Tensor, nodes: Nodes) -> Tensor:
        """Attention [B, H, T, K] of queries to all nodes, of which most are hidden; rank and q_pos [B, T]."""
        visible = torch.cat(
            [
                self.partition.visible(rank.unsqueeze(2), torch.arange(size, device=q.device), level)
                for level, size in enumerate(nodes.sizes)
            ],
            dim=2,
        )  # [B, T, P]
        y, _ = self.dot_product(q, q_pos, nodes.kv, self._mask(visible, nodes.kv.real))
        return y  # type: ignore[no-any-return]

    def attend_blocked(self, q: Tensor, q_pos: Tensor, nodes: Nodes) -> Tensor:
        """The same for a whole sequence in order of its positions: N blocks of C queries, M nodes gathered for each."""
        batch, heads, length, _ = q.shape
        count = -(-length // BLOCK)  # N
        first = torch.arange(count, device=q.device) * BLOCK  # [N], rank of the first query of each block
        rank = first.unsqueeze(1) + torch.arange(BLOCK, device=q.device)  # [N, C]
        index, visible = self._nodes_of_blocks(first, rank, nodes.sizes)  # [N, M], [N, C, M]
        k, v = (x[:, :, index].movedim(2, 1).flatten(0, 1) for x in (nodes.kv.k, nodes.kv.v))  # [B·N, G, M, K]
        k_pos = nodes.kv.pos[:, index].flatten(0, 1)  # [B·N, M]
        real = None if nodes.kv.real is None else nodes.kv.real[:, index].flatten(0, 1)  # [B·N, M]
        visible = visible.repeat(batch, 1, 1)  # [B·N, C, M]
        padded = F.pad(q, (0, 0, 0, count * BLOCK - length))
        blocks = torch.unflatten(padded, 2, (count, BLOCK)).movedim(2, 1)  # [B, N, H, C, K]
        block_pos = q_pos[:, rank.clamp(max=length - 1)].flatten(0, 1)  # [B·N, C]
        mask = self._mask(visible, real)
        y, _ = self.dot_product(blocks.flatten(0, 1), block_pos, KVCache.of(k, v, k_pos, None), mask)  # [B·N, H, C, K]
        y = y.view(batch, count, heads, BLOCK, y.size(-1)).movedim(1, 2).flatten(2, 3)  # [B, H, N·C, K]
        return y[:, :, :length]  # type: ignore[no-any-return]

    def _nodes_of_blocks(self, first: Tensor, rank: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Index [N, M] among all nodes of those that some query of a block attends to, and their mask [N, C, M]."""
        indices, masks, offset = [], [], 0
        for level, size in enumerate(sizes):
            lowest = (self.partition.ends(first, level)[0] >> level).clamp(min=0)  # [N]
            highest = (self.partition.ends(first + BLOCK - 1, level)[1] >> level).clamp(max=size)  # [N]
            width = int((highest - lowest).max().clamp(min=1))
            node = lowest.unsqueeze(1) + torch.arange(width, device=first.device)  # [N, width]
            seen = self.partition.visible(rank.unsqueeze(2), node.unsqueeze(1), level) & (node < size).unsqueeze(1)
            indices.append(node.clamp(max=size - 1) + offset)
            masks.append(seen)  # [N, C, width]
            offset += size
        return torch.cat(indices, 1), torch.cat(masks, 2)

    def _mask(self, visible: Tensor, real: Tensor | None) -> Tensor:
        """[B, T, M] and real [B, M] -> [B, 1, T, M]."""
        return (visible if real is None else visible & real.unsqueeze(1)).unsqueeze(1)
