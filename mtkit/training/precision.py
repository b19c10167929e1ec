"""Which number format the forward pass computes in; weights and optimiser stay in float32 throughout."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from mtkit.errors import RecipeError

PrecisionName = Literal["auto", "float32", "bf16", "fp16"]
CPUINFO = Path("/proc/cpuinfo")
BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})  # x86, x86 with tiles, ARM


@dataclass(frozen=True)
class Precision:
    """A number format on a device.

    Attributes:
        name: float32, bf16 or fp16; what `auto` came to.
        device: the type of the device, `cpu` or `cuda`.
        dtype: the type of matrix products, None for that of the weights.
    """

    name: str
    device: str
    dtype: torch.dtype | None

    def autocast(self) -> AbstractContextManager[object]:
        """The context in which a forward pass runs."""
        return nullcontext() if self.dtype is None else torch.autocast(self.device, self.dtype)


def resolve_precision(wanted: PrecisionName, device: torch.device) -> Precision:
    """Say what the recipe's `training.precision` means on this device.

    `auto` is bf16 only where there are instructions for it; emulated bf16 is slower than float32.

    Raises:
        RecipeError: fp16 without a GPU.
    """
    if wanted == "fp16" and device.type != "cuda":
        raise RecipeError("training.precision: fp16 needs a GPU; choose bf16, float32 or auto")
    name = wanted if wanted != "auto" else ("bf16" if has_bf16(device) else "float32")
    dtype = {"float32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[name]
    return Precision(name=name, device=device.type, dtype=dtype)


def has_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for products of bfloat16."""
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
