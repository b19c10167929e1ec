"""Dropout with cheap masks on a CPU: 8 random bits per element; variants for recurrent models."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtkit.layers import native_kernels

LEVELS = 256  # values of a random byte


def random_bytes(shape: torch.Size) -> Tensor:
    """Sample numbers below LEVELS, uint8."""
    count = math.prod(shape)
    words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
    return words.view(torch.uint8)[:count].view(shape)


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

    @property
    def scale(self) -> float:
        """Factor of the elements that are kept, on a CPU."""
        return LEVELS / (LEVELS - self.drop_levels)

    def random_bytes(self, shape: torch.Size) -> Tensor | None:
        """Sample the bytes of a mask, in which an element is dropped below `drop_levels`; None: all are kept."""
        return random_bytes(shape) if self.training and self.drop_levels else None

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout; the result has the shape and type of `x`."""
        if not self.training or self.drop_levels == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():  # compiled code fuses the mask
            return F.dropout(x, self.p, training=True)
        if native_kernels.can_drop(x):
            return native_kernels.drop(x, random_bytes(x.shape), self.drop_levels, self.scale)
        mask = torch.empty(x.shape, dtype=x.dtype)
        return x * torch.ge(random_bytes(x.shape), self.drop_levels, out=mask).mul_(self.scale)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y)."""
        if self.training and self.drop_levels and native_kernels.can_drop(y, x):  # the same in one pass
            return native_kernels.drop(y, random_bytes(y.shape), self.drop_levels, self.scale, base=x)
        return x + self(y)

    def of_relu(self, x: Tensor) -> Tensor:
        """dropout(relu(x))."""
        if self.training and native_kernels.can_drop(x):  # the same in one pass
            return native_kernels.drop_relu(x, self.random_bytes(x.shape), self.drop_levels, self.scale)
        return self(x.relu())

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
