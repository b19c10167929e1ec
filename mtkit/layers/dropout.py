"""Dropout with cheap masks on a CPU: 8 random bits per element; variants for recurrent models."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 256  # values of a random byte


def keep_mask(shape: torch.Size, drop_levels: int, dtype: torch.dtype = torch.bool) -> Tensor:
    """Sample a mask of `shape`, False or 0 with probability drop_levels/256, from 8 random bits per element."""
    count = math.prod(shape)
    words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
    mask = torch.empty(count, dtype=dtype)
    return torch.ge(words.view(torch.uint8)[:count], drop_levels, out=mask).view(shape)


class StructuralDropout:
    """Marker of modules whose own training mode skips layers or drops tokens, so that their cost is random."""


class Dropout(nn.Module):
    """Zero each element with probability p in training and scale the others by 1/(1 - p).

    Srivastava et al. 2014. https://jmlr.org/papers/v15/srivastava14a.html
    On a CPU masks use 8 random bits per element, since `bernoulli_` took a notable share of an update (measured: see
    tools/benchmarks/NOTES.md). There p is rounded to a multiple of 1/256 (0.1 to 26/256). The scale uses the rounded p,
    so that the expectation is exact.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ValueError(f"dropout {p} is outside [0, 1)")
        self.p = p
        self.drop_levels = round(p * LEVELS) if p < 1 - 0.5 / LEVELS else LEVELS - 1

    def __call__(self, x: Tensor) -> Tensor:
        """Skip `nn.Module.__call__` (hooks, dispatch) in evaluation mode, where dropout is the identity."""
        return super().__call__(x) if self.training else x

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout; the result has the shape and type of `x`."""
        if not self.training or self.drop_levels == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():  # compiled code fuses the mask
            return F.dropout(x, self.p, training=True)
        scale = LEVELS / (LEVELS - self.drop_levels)
        return x * keep_mask(x.shape, self.drop_levels, x.dtype).mul_(scale)

    def extra_repr(self) -> str:
        """See nn.Module."""
        return f"p={self.p}"


class PerStepDropout(Dropout):
    """A new mask at each step (Zaremba et al. 2014, https://arxiv.org/abs/1409.2329)."""

    def make_step_fn(self) -> Callable[[Tensor], Tensor]:
        """Return the dropout of [rows, D] for the steps of one loop."""
        return self


class VariationalDropout(PerStepDropout):
    """One mask per sentence, the same at all steps.

    Gal & Ghahramani 2016, sec. 4. https://arxiv.org/abs/1512.05287
    Where training feeds single tokens (scheduled sampling), each call has a mask of its own.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D], or [rows, D] for one step -> the same shape and type."""
        if not self.training or self.drop_levels == 0:
            return x
        return x * super().forward(torch.ones_like(x[:, :1] if x.dim() == 3 else x))

    def make_step_fn(self) -> Callable[[Tensor], Tensor]:
        """See PerStepDropout; the mask is sampled at the first step."""
        masks: list[Tensor] = []

        def drop(x: Tensor) -> Tensor:
            if not masks:
                masks.append(super(VariationalDropout, self).forward(torch.ones_like(x)))
            return x * masks[0]

        return drop if self.training and self.drop_levels else self  # which then changes nothing
