"""Scaled dot-product attention over everything that is visible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.layers.attention.kernel import SelfKernel, with_new
from mtkit.layers.attention.masks import Pattern, causal, full, visibility
from mtkit.layers.attention.multi_head import SelfAttention, SelfAttentionParts
from mtkit.layers.cache.kv_cache import KeyValues
from mtkit.layers.cache.shared_prefix import KeyTree
from mtkit.layers.cache.state import Rows
from mtkit.layers.dropout import Dropout
from mtkit.layers.positions.base import Position

# Numbers that the widest registers of processors hold: torch's softmax of fewer is not vectorised. 1,024 rows of 13
# took 241 µs, filled up to 16 33 µs.
LEAST_WIDTH = 16


def softmax(score: Tensor) -> Tensor:
    """Over the last dimension; fewer than LEAST_WIDTH numbers are filled up, which is several times as fast."""
    missing = LEAST_WIDTH - score.size(-1)
    if torch.compiler.is_compiling() or score.requires_grad or score.is_cuda or missing <= 0:
        return score.softmax(-1)  # what is exported knows no width
    filled = F.pad(score, (0, missing), value=float("-inf"))
    return filled.softmax(-1)[..., : score.size(-1)]


class Weighing(nn.Module):
    """softmax(Q K^T · scale + bias) V over what is visible, with every hook of the position scheme.

    Vaswani et al. 2017, eq. 1; grouped key/value heads as in Ainslie et al. 2023. Written as two batched products and
    a softmax: on a CPU the backward of the fused kernel takes a third of the update on short sentences.
    """

    def __init__(self, position: Position, dropout: float) -> None:
        super().__init__()
        self.position = position
        self.dropout = Dropout(dropout)

    def forward(self, q: Tensor, q_pos: Tensor, keys: KeyValues, visible: Tensor | None) -> tuple[Tensor, Tensor]:
        """Attend from q [B, H, T, K] at q_pos [B, T] to what is `visible`, [B, 1, 1 or T, S], or None for everything.

        `visible` is bool, or of the scores' type: what is added to them, where every query sees something. Adding takes
        a fifth of the time of choosing for one query, a third for five.

        Returns:
            The weighted values [B, H, T, K], zeros where nothing is visible, and the weights [B, H, T, S].
        """
        weights = softmax(self.score(q, q_pos, keys, visible))  # [B, H, T, S]
        if visible is not None and visible.dtype == torch.bool:
            weights = weights * visible.any(-1, keepdim=True).to(weights.dtype)
        return self.mix(self.dropout(weights), q_pos, keys), weights

    def score(self, q: Tensor, q_pos: Tensor, keys: KeyValues, visible: Tensor | None) -> Tensor:
        """What the softmax is taken of, [B, H, T, S]; the least number where a key is not visible."""
        batch, heads, length, width = q.shape
        groups = keys.num_groups
        q_grouped = q.reshape(batch, groups, heads // groups * length, width)  # [B, G, (H/G)T, K]
        places = keys.places(q_grouped.size(2))
        score = (q_grouped * self.position.scale(width)) @ keys.keys.data.narrow(2, 0, places).mT  # [B, G, (H/G)T, .]
        if places > keys.length:
            score = score.narrow(3, 0, keys.length)
        score = score.view(batch, heads, length, keys.length)  # [B, H, T, S]
        bias = self.position.bias(q, keys.k, q_pos, keys.pos)
        if bias is not None:
            score = score + bias  # [B, H, T, S]
        if visible is None:
            return score
        if visible.dtype == torch.bool:
            return torch.where(visible, score, torch.finfo(score.dtype).min)
        return score + visible

    def mix(self, weights: Tensor, q_pos: Tensor, keys: KeyValues) -> Tensor:
        """The values weighed by weights [B, H, T, S]: [B, H, T, K]."""
        batch, heads, length, _ = weights.shape
        groups = keys.num_groups
        grouped = weights.reshape(batch, groups, heads // groups * length, keys.length)  # [B, G, (H/G)T, S]
        places = keys.places(grouped.size(2))
        if places > keys.length:
            grouped = F.pad(grouped, (0, places - keys.length))
        vals = keys.vals.data.narrow(2, 0, places)  # [B, G, ., K]
        out = (grouped @ vals).view(batch, heads, length, vals.size(3))  # [B, H, T, K]
        extra = self.position.values(weights, q_pos, keys.pos)
        return out if extra is None else out + extra


class SoftmaxAttention(SelfKernel):
    """Every query weighs every key that the pattern lets it see (see Weighing).

    A query that sees nothing yields zeros.
    """

    def __init__(self, *, position: Position, pattern: Pattern, dropout: float) -> None:
        super().__init__()
        self.weigh = Weighing(position, dropout)
        self.pattern = pattern

    def forward(self, q: Tensor, q_pos: Tensor, keys: KeyValues) -> tuple[Tensor, Tensor]:
        """Attend from q [B, H, T, K] at q_pos [B, T].

        Returns:
            The weighted values [B, H, T, K] and the weights [B, H, T, S].
        """
        y, weights = self.weigh(q, q_pos, keys, visibility(self.pattern, q_pos, keys))
        return y, weights

    def attend(self, q: Tensor, new: KeyValues, past: Rows | None) -> tuple[Tensor, Rows]:
        """See SelfKernel; all keys and values are remembered, in a tree of hypotheses or one row for each."""
        if isinstance(past, KeyTree):
            tree = past.append(new)
            return self._proceed(q, new.pos, tree), tree
        keys = with_new(past, new)
        y, _ = self.weigh(q, new.pos, keys, visibility(self._pattern(q, past), new.pos, keys))
        return y, KeyTree(keys) if past is None else keys

    def _proceed(self, q: Tensor, pos: Tensor, tree: KeyTree) -> Tensor:
        """What tokens [N, H, W·T, K], which are nodes of the tree already, take from it."""
        visible, mask = visibility(self._pattern(q, tree), pos, tree.nodes), tree.mask_of(q.size(2))
        score = self.weigh.score(q, pos, tree.nodes, visible)  # [N, H, W·T, M]
        if mask is not None:
            score = score + mask.unsqueeze(1)
        weights = softmax(score)  # each sees itself at least
        return self.weigh.mix(self.weigh.dropout(weights), pos, tree.nodes)

    def _pattern(self, q: Tensor, past: Rows | None) -> Pattern:
        length = q.size(2) // past.width if isinstance(past, KeyTree) else q.size(2)  # T
        newest = past is not None and length == 1 and self.pattern is causal  # it comes after all others
        return full if newest else self.pattern


@dataclass(frozen=True, kw_only=True)
class FullAttentionConfig:
    """Everything is visible; in a decoder, everything before (see SoftmaxAttention)."""

    kind: Literal["full"] = "full"

    def build(self, parts: SelfAttentionParts) -> SelfAttention:
        """The layer."""
        pattern = causal if parts.causal else full
        return parts.around(SoftmaxAttention(position=parts.position, pattern=pattern, dropout=parts.dropout))
