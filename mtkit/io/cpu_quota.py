"""Cores that this process may use: of its affinity, or of its container if they are fewer; threads of torch on them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def available_cores(cgroup: Path = CGROUP, own: Path = OWN_CGROUP) -> int:
    """Return the number of cores, a part of one counting as one; a quota is of the control group or of one above it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(quota) for quota in _quotas(cgroup, own))]))


def limit_threads() -> None:
    """Let torch, which counts cores alone, start as many threads as a quota allows; call it before torch is imported.

    Threads beyond the quota are stopped for most of every period, and the others wait for them. OMP_NUM_THREADS has
    precedence.
    """
    if available_cores() < (os.cpu_count() or 1):
        os.environ.setdefault("OMP_NUM_THREADS", str(available_cores()))


def _quotas(cgroup: Path, own: Path) -> Iterator[float]:
    """Yield the cores of each quota, of control groups version 2 (cpu.max: microseconds of a period) or 1."""
    with suppress(OSError, ValueError, ZeroDivisionError):  # not those files: no quota is known
        names = [line.split(":", 2)[1:] for line in own.read_text(encoding="utf-8").strip().split("\n")]
        inside = next((path for controllers, path in names if controllers in ("", "cpu", "cpu,cpuacct")), "/")
        folder = cgroup / inside.strip("/")
        groups = [folder, *folder.parents][: len(folder.relative_to(cgroup).parts) + 1]
        for file in [each / "cpu.max" for each in groups if (each / "cpu.max").is_file()]:
            quota, period = file.read_text(encoding="ascii").split()
            if quota != "max":
                yield int(quota) / int(period)
        if (old := cgroup / "cpu" / "cpu.cfs_quota_us").is_file() and (quota := old.read_text(encoding="ascii")) > "0":
            yield int(quota) / int(old.with_name("cpu.cfs_period_us").read_text(encoding="ascii"))


SPIN_COUNT = 1000  # rounds of waiting before a thread sleeps: microseconds; GNU OpenMP's default is milliseconds


def limit_spinning() -> None:
    """Let the threads of torch sleep soon while they wait for each other; to be called before torch is imported.

    A thread that waits in a loop holds a core that the awaited one may need. With another process on one of two cores a
    small training was 1.9 times as fast with this setting, and as fast on free cores (docs/benchmarks.md). Settings of
    the environment have precedence. Only GNU OpenMP, which torch for Linux uses, reads the variable.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPIN_COUNT))
