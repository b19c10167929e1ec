"""What the processor has; asked by training and by translation alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from mtkit.errors import UsageError

CPUINFO = Path("/proc/cpuinfo")
BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})  # x86, x86 with tiles, ARM


def find_device(name: str) -> torch.device:
    """The device of this name, such as cpu or cuda:1.

    Raises:
        UsageError: there is no such device, or this installation of torch cannot use it.
    """
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"device {name}: cannot be used here: {reason}") from error
    return device


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
    if not cpuinfo.is_file():
        return False
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n")
    flags = {flag for line in lines if line.lower().startswith(("flags", "features")) for flag in line.split()}
    return bool(flags & BF16_FLAGS)
