"""Advice about a busy machine: other processes use the cores that the threads of a training need.

Threads wait for each other many times in an update. One that has to share its core holds up all others: two threads
beside one busy process on two cores were measured to take over ten times as long. The load average would also count the
threads of earlier stages of the same command, so that the CPU time of all processes is compared with that of this one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from mtkit.display import about_duration, count_of

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
    """Return the number of cores that other processes used on average.

    Args:
        before: the earlier times.
        now: the later ones.
        processes: of this training, each as busy as this one.
    """
    own = processes * (now.process - before.process)
    return max(0.0, (now.machine - before.machine - own) / (now.wall - before.wall))


def busy_lines(before: CpuTimes | None, now: CpuTimes | None, free_seconds: float | None) -> list[str]:
    """A line that says that the measured time is that of a busy machine, if it is one.

    Args:
        before: CPU times before the measurement.
        now: after it.
        free_seconds: of the training on free cores; None: unknown.
    """
    if before is None or now is None or (others := cores_of_others(before, now)) < TOLERANCE:
        return []
    takes = "it takes less time" if free_seconds is None else about_duration(free_seconds)
    return [f"(other processes used {others:.1f} of {os.cpu_count()} cores meanwhile; on free cores {takes})"]


class BusyMachine:
    """Compares the free cores with the threads of this training, and warns once if there are too few cores.

    Args:
        threads: of this process.
        processes: of this training on this machine.
        cores: of this machine.
        read: returns the present times.
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
        """Return a sentence with the remedy when other processes are found to take the cores, and only then.

        Args:
            seconds_per_update: measured, for the sentence.
        """
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
