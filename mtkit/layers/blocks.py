"""A sequence cut into blocks that are folded into the batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


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
