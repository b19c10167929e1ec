"""Number formats of the computation of a translation."""

from __future__ import annotations

from typing import Literal

from mtkit.hardware import CPUINFO, cpu_has_bf16
from mtkit.inference.library import chosen_instruction_set

CpuType = Literal["float32", "bf16", "int8"]
ComputeType = Literal["auto"] | CpuType


def cpu_compute_type(requested: ComputeType) -> CpuType:
    """The type on the CPU; `auto` is bf16 where the processor has instructions for it, else float32.

    MTKIT_NATIVE leaves only the instructions of the set that it names.
    """
    if requested != "auto":
        return requested
    chosen = chosen_instruction_set()
    return "bf16" if cpu_has_bf16(CPUINFO) and (chosen is None or "bf16" in chosen) else "float32"
