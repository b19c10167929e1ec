"""Tokens that every query sees, however far away, chosen by rule."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Landmarks:
    """Which tokens are seen from everywhere.

    Attributes:
        first: the first token of a sentence.
        last: its last, which is the end-of-sentence piece on the source side.
        every: the last of each so many positions (of 16: those at 15, 31, ...), or None.
        sentence_ends: tokens that end a sentence, as whoever knows the pieces says (see SentenceEnds).
    """

    first: bool = False
    last: bool = False
    every: int | None = None
    sentence_ends: bool = False

    @property
    def exist(self) -> bool:
        """Whether there can be any."""
        return self.first or self.last or self.every is not None or self.sentence_ends

    def find(self, pos: Tensor, real: Tensor | None, ends: Tensor | None = None) -> Tensor:
        """Which tokens at pos [B, S] are landmarks, [B, S], if `ends` [B, S] end sentences; padding is none."""
        chosen = torch.zeros_like(pos, dtype=torch.bool)
        if not pos.numel():
            return chosen
        here = torch.ones_like(chosen) if real is None else real
        if self.first:
            chosen |= pos == pos.masked_fill(~here, torch.iinfo(pos.dtype).max).amin(1, keepdim=True)
        if self.last:
            chosen |= pos == pos.masked_fill(~here, torch.iinfo(pos.dtype).min).amax(1, keepdim=True)
        if self.every is not None:
            chosen |= pos % self.every == self.every - 1
        if self.sentence_ends and ends is not None:
            chosen |= ends
        return chosen & here


@dataclass(frozen=True)
class Places:
    """Up to L chosen places of each of B sequences."""

    index: Tensor  # [B, L] int64
    real: Tensor  # [B, L] bool, False where a sequence has fewer

    @classmethod
    def of(cls, chosen: Tensor) -> Places:
        """The places where chosen [B, S] is True, in order."""
        most = int(chosen.sum(1).max()) if chosen.size(0) else 0
        order = chosen.byte().argsort(dim=1, descending=True, stable=True)[:, :most]  # [B, L]
        return cls(order, chosen.gather(1, order))

    def gather(self, x: Tensor, dim: int) -> Tensor:
        """What stands there: x [B, ...] with S at `dim` -> the same with L."""
        shape = [1] * x.dim()
        shape[0], shape[dim] = self.index.shape
        expanded = list(x.shape)
        expanded[dim] = self.index.size(1)
        return x.gather(dim, self.index.view(shape).expand(expanded))
