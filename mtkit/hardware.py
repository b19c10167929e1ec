"""What the processor has; asked by training and by translation alike."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from pathlib import Path

import torch

from mtkit.errors import UsageError

CPUINFO = Path("/proc/cpuinfo")
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")  # where a container's own limit stands
BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})  # x86, x86 with tiles, ARM
BYTE_PRODUCT_FLAGS = frozenset({"avx512_vnni", "avx_vnni"})  # sums of products of bytes that do not overflow, x86
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as glibc's malloc.h has them
LARGE_BLOCK = 32 << 20  # bytes; larger blocks come from the system and return to it; glibc allows no more
KEPT_MEMORY = 1 << 30  # bytes at the end of the heap that are kept


def find_device(name: str) -> torch.device:
    """The device of this name, such as cpu or cuda:1.

    Raises:
        UsageError: there is no such device, or this installation of torch cannot use it.
    """
    here = _devices()
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:  # whose words name all types that torch has ever known
        raise UsageError(f"device {name}: there is none here, but {', '.join(here)}") from error
    if device.type not in {known.partition(":")[0] for known in here}:
        raise UsageError(f"device {name}: nothing can be computed there, but on {', '.join(here)}")
    return device


def _devices() -> list[str]:
    """The devices of this machine, as far as this installation of torch can use them."""
    gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return ["cpu", *gpus, *(["mps"] if torch.backends.mps.is_available() else [])]


def has_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for products of bfloat16; emulated, they are slower than float32."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return cpu_has_bf16(CPUINFO)


def cpu_has_bf16(cpuinfo: Path) -> bool:
    """Whether the processor lists bf16 instructions: `cpuinfo` on Linux, sysctl on macOS; False if nobody says."""
    if sys.platform == "darwin":
        answer = subprocess.run(["sysctl", "-n", "hw.optional.arm.FEAT_BF16"], capture_output=True, check=False)
        return answer.stdout.strip() == b"1"
    return bool(_flags(cpuinfo) & BF16_FLAGS)


def cpu_has_byte_products(cpuinfo: Path = CPUINFO) -> bool:
    """Whether `cpuinfo` lists exact products of unsigned by signed bytes (x86 alone has them in this form)."""
    return bool(_flags(cpuinfo) & BYTE_PRODUCT_FLAGS)


def _flags(cpuinfo: Path) -> set[str]:
    if not cpuinfo.is_file():
        return set()
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n")
    return {flag for line in lines if line.lower().startswith(("flags", "features")) for flag in line.split()}


def free_memory(device: torch.device) -> int:
    """Bytes that a program may still take on the device; where nobody says, half of what the machine has."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return min(_available(MEMINFO), _left_of_limit(CGROUP))


def peak_memory(device: torch.device) -> int:
    """The most bytes that this program has held so far: of a GPU as tensors, of a CPU's memory altogether."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def keep_memory() -> bool:
    """Have the C library keep the memory that tensors no longer need; false where it is not glibc and cannot be told.

    As it is, glibc gives most of it back after each step of a search and gets it again in the next, when the system
    fills every page with zeros: 100,000 pages for 1,000 sentences, a twentieth of the time. Training gains nothing.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    settings = {M_MMAP_THRESHOLD: LARGE_BLOCK, M_TRIM_THRESHOLD: KEPT_MEMORY}
    return all(library.mallopt(name, value) == 1 for name, value in settings.items())


def _available(meminfo: Path) -> int:
    lines = meminfo.read_text(encoding="utf-8").split("\n") if meminfo.is_file() else []
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _left_of_limit(cgroup: Path) -> int:
    limit, used = cgroup / "memory.max", cgroup / "memory.current"
    if not (limit.is_file() and used.is_file()) or limit.read_text().strip() == "max":
        return sys.maxsize
    return max(0, int(limit.read_text()) - int(used.read_text()))
