"""Meters of a training: time, losses, gradients and throughput, and the cores that other processes take.

Losses and gradients since the last log line are accumulated without waiting for the device.

Threads wait for each other many times in an update. One that has to share its core holds up all others: two threads
beside one busy process on two cores were measured to take over ten times as long. The load average would also count the
threads of earlier stages of the same command, so that the CPU time of all processes is compared with that of this one.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mtkit.corpus.order.loader import UpdateData
from mtkit.display import about_duration, count_of
from mtkit.models.interface import Losses
from mtkit.training.distributed import total_norm


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
    """Losses, gradient norm and throughput of the updates since its creation."""

    def __init__(self, watch: Stopwatch) -> None:
        self._watch, self._start = watch, watch.seconds
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
        seconds = max(self._watch.seconds - self._start, 1e-9)
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
        modules: dict[str, list[nn.Parameter]] = {}  # trainable parameters by the child module that has them
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                modules.setdefault(name.partition(".")[0], []).append(parameter)
        gradients = {
            module: total_norm([p.grad for p in weights if p.grad is not None]) for module, weights in modules.items()
        }
        before = {module: [p.detach().clone() for p in weights] for module, weights in modules.items()}
        yield
        for module, weights in modules.items():
            changes = [new.detach() - old for new, old in zip(weights, before[module], strict=True)]
            self._by_module[module] = gradients[module], total_norm(changes) / total_norm(before[module])

    def read(self) -> Mapping[str, object]:
        """Return the last measurement once, then nothing.

        `modules` holds, by module, `grad_norm` and `update_ratio`, the norm of the weights' change over their norm.
        """
        measured, self._by_module = self._by_module, {}
        by_module = {
            module: {"grad_norm": float(gradient), "update_ratio": float(ratio)}
            for module, (gradient, ratio) in measured.items()
        }
        return {"modules": by_module} if by_module else {}


STAT = Path("/proc/stat")
MIN_SECONDS = 5.0  # of a measurement
TOLERANCE = 0.5  # cores that other processes may use before they are said to disturb
_BUSY_FIELDS = (1, 2, 3, 6, 7, 8)  # of /proc/stat: user, nice, system, irq, softirq, steal


class CpuTimes(NamedTuple):
    """CPU seconds since the start of the machine, or of the process.

    Attributes:
        wall: of a clock.
        machine: of all processes on all cores.
        process: of this process.
    """

    wall: float
    machine: float
    process: float


def read_cpu_times() -> CpuTimes | None:
    """Return the present times; None where the system has no /proc/stat."""
    if not STAT.is_file():
        return None
    fields = STAT.read_text(encoding="utf-8").partition("\n")[0].split()
    ticks = sum(int(fields[number]) for number in _BUSY_FIELDS)
    return CpuTimes(time.perf_counter(), ticks / os.sysconf("SC_CLK_TCK"), time.process_time())


def cores_of_others(before: CpuTimes, now: CpuTimes, processes: int = 1) -> float:
    """Return the mean number of cores that other programs used; the `processes` of this training are equally busy."""
    training = processes * (now.process - before.process)
    return max(0.0, (now.machine - before.machine - training) / (now.wall - before.wall))


def busy_lines(before: CpuTimes | None, now: CpuTimes | None, free_seconds: float | None) -> list[str]:
    """A line that says that the measured time is that of a busy machine, if it is one.

    Args:
        free_seconds: of the training on free cores; None: unknown.
    """
    if before is None or now is None or (others := cores_of_others(before, now)) < TOLERANCE:
        return []
    takes = "it takes less time" if free_seconds is None else about_duration(free_seconds)
    return [f"(other processes used {others:.1f} of {os.cpu_count()} cores meanwhile; on free cores {takes})"]


class BusyMachine:
    """Compares the free cores with the threads of this training, and warns once if there are too few cores.

    Args:
        threads: of each process.
        processes: of this training on this machine.
    """

    def __init__(
        self,
        threads: int,
        *,
        processes: int = 1,
        cores: int | None = None,
        read: Callable[[], CpuTimes | None] = read_cpu_times,
    ) -> None:
        self._threads, self._processes = threads, processes
        self._cores = cores or os.cpu_count() or 1
        self._read = read
        self._last = read()

    @classmethod
    def of_training(cls, device: torch.device) -> BusyMachine:
        """Return the detection for a training on this device; on a GPU, that of the thread that feeds it."""
        threads = torch.get_num_threads() if device.type == "cpu" else 1
        return cls(threads, processes=int(os.environ.get("LOCAL_WORLD_SIZE", "1")))  # set by torchrun

    def warning(self, seconds_per_update: float) -> str | None:
        """Return a sentence with the remedy when other processes are found to take the cores, and only then."""
        now = None if self._last is None else self._read()
        if now is None or self._last is None or now.wall - self._last.wall < MIN_SECONDS:
            return None
        others = cores_of_others(self._last, now, self._processes)
        self._last = now
        if self._processes * self._threads + others <= self._cores + TOLERANCE:
            return None
        self._last = None  # once
        remedy = "end them or wait"
        if self._threads > 1:
            remedy += ", or resume with OMP_NUM_THREADS=1 (other rounding): a thread that shares its core holds up all"
        return (
            f"other processes use {others:.1f} of {self._cores} cores, and this training has "
            f"{count_of(self._processes * self._threads, 'thread')} ({seconds_per_update:.2g} s per update); {remedy}"
        )
