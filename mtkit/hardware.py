"""Devices, instruction sets, cores, threads and memory of this machine; torch is imported only to ask about devices."""

from __future__ import annotations

import math
import mmap
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.errors import UsageError

if TYPE_CHECKING:
    import torch

CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")
PROCESSES = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")  # has the limits of a container
PROCESS_CGROUP = Path("/proc/self/cgroup")
BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})  # AVX-512, AMX, ARM
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h
MALLOC_MMAP_THRESHOLD = 32 << 20  # bytes; larger blocks are mapped and unmapped one by one; the maximum of glibc
THREAD_BYTES = 96 << 20  # address space for the stack and the first allocations of a thread
MALLOC_TRIM_THRESHOLD = 1 << 30  # free bytes at the end of the heap that are not returned to the system
ONEDNN_CACHE_VARIABLES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")  # of oneDNN, of torch's interface
GPU_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # of the drivers of NVIDIA, of AMD, and of Windows below Linux
ONEDNN_CACHE_CAPACITY = 64  # kernels; about those of one update or a few search steps, whose layers then share them
SPIN_COUNT = 1000  # rounds of waiting before a thread sleeps: microseconds; GNU OpenMP's default is milliseconds

_num_threads: int | None = None  # that `set_num_threads` chose
_chosen_device: ContextVar[torch.device | None] = ContextVar("_chosen_device", default=None)


def parse_device(name: str | None) -> torch.device:
    """The device of this name, such as cpu or cuda:1; for None the default one.

    Raises:
        UsageError: the device does not exist, or this installation of torch cannot use it.
    """
    import torch

    if name is None:
        return default_device()
    available = ", ".join(_devices())
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch's message lists every device type that it defines
        raise UsageError(f"device {name or repr(name)}: not available; this machine has {available}") from error
    if device.type not in {other.partition(":")[0] for other in _devices()}:
        raise UsageError(f"device {name}: cannot compute; this machine has {available}")
    if device.type == "cpu" and device.index:  # torch computes on the CPU whatever the number is
        raise UsageError(f"device {name}: the CPU has no number; write cpu")
    return device


def _devices() -> list[str]:
    """The names of the devices that this installation of torch can use."""
    import torch

    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]


def default_device() -> torch.device:
    """The device of `on_device`; without one, the GPU if there is one, else the CPU."""
    import torch

    chosen = _chosen_device.get()
    return chosen or torch.device("cuda" if torch.cuda.is_available() else "cpu")


def runs_on_cpu(name: str | None) -> bool:
    """Return whether the device of this name, or for None the default one, is the CPU.

    torch, whose import takes seconds, is asked only where there may be a GPU.

    Raises:
        UsageError: as `parse_device`.
    """
    if name == "cpu" or (name is None and _chosen_device.get() is None and not any(map(os.path.exists, GPU_FILES))):
        return True
    return parse_device(name).type == "cpu"


def available_cores(cgroup: Path = CGROUP, process: Path = PROCESS_CGROUP) -> int:
    """The number of cores, a part of one counting as one; a quota is of the control group or of one above it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas: list[float] = []  # cores, of control groups version 2 (cpu.max: microseconds of a period) or 1
    with suppress(OSError, ValueError, ZeroDivisionError):  # not those files: no quota is known
        names = [line.split(":", 2)[1:] for line in process.read_text(encoding="utf-8").strip().split("\n")]
        inside = next((path for controllers, path in names if controllers in ("", "cpu", "cpu,cpuacct")), "/")
        folder = cgroup / inside.strip("/")
        groups = [folder, *folder.parents][: len(folder.relative_to(cgroup).parts) + 1]
        for file in [each / "cpu.max" for each in groups if (each / "cpu.max").is_file()]:
            quota, period = file.read_text(encoding="ascii").split()
            if quota != "max":
                quotas.append(int(quota) / int(period))
        if (old := cgroup / "cpu" / "cpu.cfs_quota_us").is_file() and (quota := old.read_text(encoding="ascii")) > "0":
            quotas.append(int(quota) / int(old.with_name("cpu.cfs_period_us").read_text(encoding="ascii")))
    return max(1, min([cores, *map(math.ceil, quotas)]))


def limit_threads() -> None:
    """Let torch, which counts cores alone, start as many threads as a quota allows; call it before torch is imported.

    Threads beyond the quota are stopped for most of every period, and the others wait for them. OMP_NUM_THREADS has
    precedence.
    """
    if available_cores() < (os.cpu_count() or 1):
        os.environ.setdefault("OMP_NUM_THREADS", str(available_cores()))


def limit_spinning() -> None:
    """Let the threads of torch sleep soon while they wait for each other; to be called before torch is imported.

    A thread that waits in a loop holds a core that the awaited one may need. With another process on one of two cores a
    small training was 1.9 times as fast with this setting, and as fast on free cores (docs/benchmarks.md). Settings of
    the environment have precedence. Only GNU OpenMP, which torch for Linux uses, reads the variable.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPIN_COUNT))


def num_threads() -> int:
    """The number of threads of a computation on the CPU."""
    if _num_threads is not None:
        return _num_threads
    if "torch" in sys.modules:
        import torch

        return torch.get_num_threads()
    variable = os.environ.get("OMP_NUM_THREADS", "")
    return int(variable) if variable.isdigit() and int(variable) > 0 else available_cores()


def set_num_threads(number: int) -> None:
    """Set the number of threads of a computation on the CPU, also of torch.

    Where torch is imported later, `tell_torch_num_threads` tells it.
    """
    global _num_threads
    _num_threads = number
    if "torch" in sys.modules:
        tell_torch_num_threads()


def tell_torch_num_threads() -> None:
    """Hand the number of threads that was set to torch, which may have been imported since."""
    import torch

    if _num_threads is not None:
        torch.set_num_threads(_num_threads)


@contextmanager
def restored_threads() -> Iterator[None]:
    """Return to the present number of threads after the block."""
    global _num_threads
    chosen, before = _num_threads, num_threads()
    try:
        yield
    finally:
        if num_threads() != before:
            set_num_threads(before)
        _num_threads = chosen


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread within the block."""
    with restored_threads():
        set_num_threads(1)
        yield


def has_gpu() -> bool:
    """Return whether trainings run on a GPU."""
    return default_device().type == "cuda"


@contextmanager
def on_device(name: str | None) -> Iterator[None]:
    """Make a device the default one within the block; None changes nothing.

    Raises:
        UsageError: the device does not exist, is not one that trainings support, or torchrun assigns the GPUs.
    """
    if name is None:
        yield
        return
    import torch

    device = parse_device(name)
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"device {name}: training runs on cpu or cuda only")
    if device.index is not None and device.type == "cuda" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError(f"device {name}: torchrun gives each process its own GPU; use cuda, or CUDA_VISIBLE_DEVICES")
    token = _chosen_device.set(torch.device(device.type))
    try:
        with torch.cuda.device(device if device.type == "cuda" else -1):  # -1: no change
            yield
    finally:
        _chosen_device.reset(token)


def has_bf16(device: torch.device) -> bool:
    """Return whether the device has bfloat16 instructions; emulated bfloat16 is slower than float32."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_capability(device) >= (8, 0)
    return cpu_has_bf16(CPUINFO)


def cpu_has_bf16(cpuinfo: Path) -> bool:
    """Return whether the CPU has bf16 instructions, from `cpuinfo` on Linux and sysctl on macOS; False if unknown."""
    if sys.platform == "darwin":
        result = subprocess.run(["sysctl", "-n", "hw.optional.arm.FEAT_BF16"], capture_output=True, check=False)
        return result.stdout.strip() == b"1"
    return bool(cpu_flags(cpuinfo) & BF16_FLAGS)


def cpu_flags(cpuinfo: Path = CPUINFO) -> set[str]:
    """The names of the processor's instruction sets, as Linux lists them; empty if unknown."""
    lines = _cpuinfo_lines(cpuinfo)
    return {flag for line in lines if line.lower().startswith(("flags", "features")) for flag in line.split()}


def cpu_name(cpuinfo: Path = CPUINFO) -> str:
    """The name of the processor's model."""
    names = (line.partition(":")[2].strip() for line in _cpuinfo_lines(cpuinfo) if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _cpuinfo_lines(cpuinfo: Path) -> list[str]:
    return cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n") if cpuinfo.is_file() else []


def free_memory(device: torch.device) -> int:
    """The bytes that can still be allocated on the device; if unknown, half of the machine's RAM."""
    if device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    lines = MEMINFO.read_text(encoding="utf-8").split("\n") if MEMINFO.is_file() else []
    kilobytes = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 if kilobytes is None else kilobytes * 1024
    limit, used = CGROUP / "memory.max", CGROUP / "memory.current"
    if not (limit.is_file() and used.is_file()) or limit.read_text().strip() == "max":
        return free
    return min(free, max(0, int(limit.read_text()) - int(used.read_text())))


def peak_memory(device: torch.device) -> int:
    """The peak memory of this process in bytes: of tensors on a GPU, of the whole process on a CPU."""
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def memory_of(pids: Iterable[int]) -> int:
    """The bytes in memory of processes together: what each has alone, and once what they share.

    Only on Linux; `peak_memory` of each process counts shared memory in each.
    """
    private, shared = [], []
    for pid in pids:
        lines = (PROCESSES / str(pid) / "smaps_rollup").read_text(encoding="utf-8").split("\n")[1:-1]
        kilobytes = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
        private.append(kilobytes["Private_Clean"] + kilobytes["Private_Dirty"])
        shared.append(kilobytes["Rss"] - private[-1])
    return 1024 * (sum(private) + max(shared))


def require_thread_memory() -> None:
    """Check that a thread can start: Python waits forever for a thread whose first allocation fails.

    Raises:
        MemoryError: there is too little memory.
    """
    try:
        mmap.mmap(-1, THREAD_BYTES).close()
    except OSError as error:
        raise MemoryError("no memory for a thread") from error


def tune_malloc() -> bool:
    """Make glibc keep freed memory instead of returning it to the system; return False with another C library.

    By default glibc returns most freed memory after each search step and requests it again in the next one, when the
    kernel fills every page with zeros (measured: see tools/benchmarks/NOTES.md). A training does the same after
    `--budget` has measured models: from the sizes of freed blocks glibc decides which later ones go back to the system
    (docs/benchmarks.md, "Freed memory").
    """
    import ctypes  # a few milliseconds at the start of each command

    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    settings = {M_MMAP_THRESHOLD: MALLOC_MMAP_THRESHOLD, M_TRIM_THRESHOLD: MALLOC_TRIM_THRESHOLD}
    return all(library.mallopt(name, value) == 1 for name, value in settings.items())


def trim_malloc() -> bool:
    """Return freed memory to the system, after a stage that needed much; return False with another C library.

    The trainer of sentencepiece leaves more than 200 MB in the free lists of glibc, which the next stages cannot use
    well.
    """
    import ctypes

    library = ctypes.CDLL(None)
    return hasattr(library, "malloc_trim") and library.malloc_trim(0) == 1


def limit_onednn_cache() -> None:
    """Limit oneDNN's caches of kernels; call it before its first use. The user's environment variables take precedence.

    oneDNN and torch's interface to it each cache the last 1,024 kernels by shape. Batches of sentences rarely repeat a
    shape, so that training and translation only pay memory for the cache. Its long-lived blocks also fragment the heap
    between large short-lived ones, which multiplies the growth. A small cache costs no speed (measured: see
    tools/benchmarks/NOTES.md).
    """
    for variable in ONEDNN_CACHE_VARIABLES:
        os.environ.setdefault(variable, str(ONEDNN_CACHE_CAPACITY))
