"""Global tokens of sparse attention: tokens that every query attends to at any distance, chosen by rule."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class GlobalTokens:
    """Rule that chooses global tokens. Beltagy, Peters & Cohan 2020, sec. 3.1, "global attention".

    Attributes:
        bos: the first token of a sentence.
        eos: the last one, which is the end-of-sentence token on the source side.
        stride: the last one of every `stride` positions (for 16: positions 15, 31, ...), or None.
    """

    bos: bool = False
    eos: bool = False
    stride: int | None = None

    @property
    def enabled(self) -> bool:
        """True if the rule can choose any token."""
        return self.bos or self.eos or self.stride is not None

    def mask(self, pos: Tensor, real: Tensor | None) -> Tensor:
        """True for global tokens, [B, S], of tokens at pos [B, S]; never for padding."""
        chosen = torch.zeros_like(pos, dtype=torch.bool)
        if not pos.numel():
            return chosen
        real = torch.ones_like(chosen) if real is None else real
        if self.bos:
            chosen |= pos == pos.masked_fill(~real, torch.iinfo(pos.dtype).max).amin(1, keepdim=True)
        if self.eos:
            chosen |= pos == pos.masked_fill(~real, torch.iinfo(pos.dtype).min).amax(1, keepdim=True)
        if self.stride is not None:
            chosen |= pos % self.stride == self.stride - 1
        return chosen & real


@dataclass(frozen=True)
class GatheredTokens:
    """Indices of up to M selected tokens of each of B sequences."""

    index: Tensor  # [B, M] int64
    real: Tensor  # [B, M] bool, False where a sequence has fewer

    @classmethod
    def of(cls, selected: Tensor) -> GatheredTokens:
        """The tokens where selected [B, S] is True, in order."""
        max_count = int(selected.sum(1).max()) if selected.size(0) else 0
        index = selected.byte().argsort(dim=1, descending=True, stable=True)[:, :max_count]  # [B, M]
        return cls(index, selected.gather(1, index))

    def gather(self, x: Tensor, dim: int) -> Tensor:
        """Select the tokens from x [B, ...] with S at `dim`: the same shape with M at `dim`."""
        shape = [1] * x.dim()
        shape[0], shape[dim] = self.index.shape
        expanded = list(x.shape)
        expanded[dim] = self.index.size(1)
        return x.gather(dim, self.index.view(shape).expand(expanded))
