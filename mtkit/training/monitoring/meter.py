"""Time and sums since the last line of the log; nothing waits for the device before it is read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from mtkit.corpus.order.loader import Update
from mtkit.models.interface import Losses


class Stopwatch:
    """Counts the seconds of training, those of validation and saving left out."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._begin = time.perf_counter() - seconds

    @property
    def seconds(self) -> float:
        """Counted so far."""
        return time.perf_counter() - self._begin

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block that is not counted."""
        before = self.seconds
        try:
            yield
        finally:
            self._begin = time.perf_counter() - before


class Sums:
    """The losses of one update, summed over its micro-batches and still on the device.

    Attributes:
        by_name: the sums.
        tokens_by_name: scored in the micro-batches that have such a loss; layers may be left out of some.
        tokens: scored in all.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Tensor] = {}
        self.tokens_by_name: Counter[str] = Counter()
        self.tokens = 0

    def add(self, losses: Losses) -> None:
        """Count one micro-batch."""
        for name, value in {"loss": losses.sum, **losses.extra}.items():
            value = value.detach().double()
            self.by_name[name] = self.by_name[name] + value if name in self.by_name else value
            self.tokens_by_name[name] += losses.tokens
        self.tokens += losses.tokens

    def to_json(self) -> dict[str, Any]:
        """For other ranks; waits for the device."""
        numbers = {name: float(value) for name, value in self.by_name.items()}
        return {"tokens": self.tokens, "tokens_by_name": self.tokens_by_name, "by_name": numbers}

    def take(self, shares: Sequence[Mapping[str, Any]]) -> None:
        """Become the sums over all ranks, given each one's `to_json`; not all have the same names."""
        totals: Counter[str] = Counter()
        for share in shares:
            for name, value in share["by_name"].items():
                totals[name] += value
        self.by_name = {name: torch.tensor(total, dtype=torch.float64) for name, total in totals.items()}
        self.tokens_by_name = sum((Counter(share["tokens_by_name"]) for share in shares), Counter())
        self.tokens = sum(share["tokens"] for share in shares)

    def mean(self) -> float:
        """The loss per scored token; waits for the device."""
        return float(self.by_name["loss"]) / max(self.tokens, 1) if self.by_name else 0.0


class Meter:
    """Adds up updates between two readings."""

    def __init__(self, watch: Stopwatch) -> None:
        self.watch = watch
        self.reset()

    def reset(self) -> None:
        """Begin again, now."""
        self._begin = self.watch.seconds
        self._by_name: dict[str, Tensor] = {}
        self._tokens: Counter[str] = Counter()
        self._norm: Tensor | float = 0.0
        self._updates = self._real = self._padded = 0

    def add(self, drawn: Update, sums: Sums, norm: Tensor) -> None:
        """Count one update and the norm of its gradient."""
        for name, value in sums.by_name.items():
            self._by_name[name] = self._by_name[name] + value if name in self._by_name else value
        self._tokens.update(sums.tokens_by_name)
        self._norm = self._norm + norm.detach()
        self._updates += 1
        self._real += drawn.src_tokens + drawn.tgt_tokens
        self._padded += drawn.padded_tokens

    def read(self) -> Mapping[str, Any]:
        """Means per scored token, the mean gradient norm, speed in real tokens of both sides, and fill."""
        seconds = max(self.watch.seconds - self._begin, 1e-9)
        means = {name: float(value) / max(self._tokens[name], 1) for name, value in self._by_name.items()}
        return {
            **means,
            "grad_norm": float(self._norm) / max(self._updates, 1),
            "tokens_per_second": round(self._real / seconds, 1),
            "seconds_per_update": round(seconds / max(self._updates, 1), 4),
            "fill": round(self._real / max(self._padded, 1), 4),
        }
