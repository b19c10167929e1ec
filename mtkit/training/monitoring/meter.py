"""Losses, gradients, throughput and time since the last log line, accumulated without waiting for the device."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from mtkit.corpus.order.loader import UpdateData
from mtkit.models.interface import Losses
from mtkit.training.distributed.fsdp import total_norm


class Stopwatch:
    """Seconds since its creation, except paused ones.

    Args:
        seconds: initial value.
        processor_seconds: initial value of the time that the threads of this process computed.
    """

    def __init__(self, seconds: float = 0.0, processor_seconds: float = 0.0) -> None:
        self._start = time.perf_counter() - seconds
        self._processor_start = time.process_time() - processor_seconds

    @property
    def seconds(self) -> float:
        """Seconds counted so far."""
        return time.perf_counter() - self._start

    @property
    def processor_seconds(self) -> float:
        """Processor time counted so far, summed over the threads of this process."""
        return time.process_time() - self._processor_start

    @property
    def times(self) -> dict[str, float]:
        """Both times, by the names of Progress."""
        return {"seconds": self.seconds, "processor_seconds": self.processor_seconds}

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time within the block."""
        before, processor_before = self.seconds, self.processor_seconds
        try:
            yield
        finally:
            self._start = time.perf_counter() - before
            self._processor_start = time.process_time() - processor_before


class LossSums:
    """Losses of one update, summed over its micro-batches and still on the device.

    Attributes:
        by_name: the sums.
        tokens_by_name: scored tokens of the micro-batches that have a loss of that name; with layerdrop, a mixture of
            experts reports its losses for some micro-batches only.
        tokens: scored tokens of all micro-batches.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Tensor] = {}
        self.tokens_by_name: Counter[str] = Counter()
        self.tokens = 0

    def add(self, losses: Losses) -> None:
        """Add the losses of one micro-batch."""
        for name, value in {"loss": losses.sum, **losses.extra}.items():
            value = value.detach().double()
            self.by_name[name] = self.by_name[name] + value if name in self.by_name else value
            self.tokens_by_name[name] += losses.tokens
        self.tokens += losses.tokens

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON for other ranks; waits for the device."""
        numbers = {name: float(value) for name, value in self.by_name.items()}
        return {"tokens": self.tokens, "tokens_by_name": self.tokens_by_name, "by_name": numbers}

    def merge_ranks(self, ranks: Sequence[Mapping[str, Any]]) -> None:
        """Replace the sums by those over all ranks, given each rank's `to_json`; ranks may have different names."""
        totals: Counter[str] = Counter()
        for rank in ranks:
            for name, value in rank["by_name"].items():
                totals[name] += value
        self.by_name = {name: torch.tensor(total, dtype=torch.float64) for name, total in totals.items()}
        self.tokens_by_name = sum((Counter(rank["tokens_by_name"]) for rank in ranks), Counter())
        self.tokens = sum(rank["tokens"] for rank in ranks)

    def mean(self) -> float:
        """Return the loss per scored token; waits for the device."""
        return float(self.by_name["loss"]) / max(self.tokens, 1) if self.by_name else 0.0


class ThroughputMeter:
    """Losses, gradient norm and throughput of the updates since the last reset."""

    def __init__(self, watch: Stopwatch) -> None:
        self.watch = watch
        self.reset()

    def reset(self) -> None:
        """Restart at the present time."""
        self._start = self.watch.seconds
        self._by_name: dict[str, Tensor] = {}
        self._tokens: Counter[str] = Counter()
        self._norm: Tensor | float = 0.0
        self._updates = self._real = self._padded = 0

    def add(self, data: UpdateData, sums: LossSums, grad_norm: Tensor) -> None:
        """Add one update."""
        for name, value in sums.by_name.items():
            self._by_name[name] = self._by_name[name] + value if name in self._by_name else value
        self._tokens.update(sums.tokens_by_name)
        self._norm = self._norm + grad_norm.detach()
        self._updates += 1
        self._real += data.src_tokens + data.tgt_tokens
        self._padded += data.padded_tokens

    def read(self) -> Mapping[str, Any]:
        """Return mean losses per scored token, the mean gradient norm, and throughput in real tokens of both sides."""
        seconds = max(self.watch.seconds - self._start, 1e-9)
        means = {name: float(value) / max(self._tokens[name], 1) for name, value in self._by_name.items()}
        return {
            **means,
            "grad_norm": float(self._norm) / max(self._updates, 1),
            "tokens_per_second": round(self._real / seconds, 1),
            "seconds_per_update": round(seconds / max(self._updates, 1), 4),
            "padding_efficiency": round(self._real / max(self._padded, 1), 4),
        }


class GradientStats:
    """Statistics of every `log_every`-th update. They do not change the training; between two, they cost nothing.

    Args:
        log_every: updates between two measurements; 0 measures nothing.
    """

    def __init__(self, log_every: int) -> None:
        self.log_every = log_every
        self._by_module: dict[str, tuple[Tensor, Tensor]] = {}

    @contextmanager
    def measure(self, model: nn.Module, update: int) -> Iterator[None]:
        """Measure the optimiser step that runs within the block; the gradients must exist."""
        if not self.log_every or update % self.log_every:
            yield
            return
        modules = _parameters_by_module(model)
        gradients = {
            module: total_norm([p.grad for p in weights if p.grad is not None]) for module, weights in modules.items()
        }
        before = {module: [p.detach().clone() for p in weights] for module, weights in modules.items()}
        yield
        self._by_module = {
            module: (
                gradients[module],
                total_norm(_weight_changes(weights, before[module])) / total_norm(before[module]),
            )
            for module, weights in modules.items()
        }

    def read(self) -> Mapping[str, object]:
        """Return the last measurement once, then nothing.

        `modules` holds, by module, `grad_norm` and `update_ratio`, the norm of the weights' change over their norm.
        """
        measured, self._by_module = self._by_module, {}
        if not measured:
            return {}
        by_module = {
            module: {"grad_norm": float(gradient), "update_ratio": float(ratio)}
            for module, (gradient, ratio) in measured.items()
        }
        return {"modules": by_module}


def _parameters_by_module(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Return the trainable parameters by the name of the model's child module that holds them."""
    modules: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            modules.setdefault(name.partition(".")[0], []).append(parameter)
    return modules


def _weight_changes(after: Sequence[nn.Parameter], before: Sequence[Tensor]) -> list[Tensor]:
    return [new.detach() - old for new, old in zip(after, before, strict=True)]
