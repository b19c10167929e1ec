"""State of this machine: versions, processor, memory, disk, speed of matrix products, and what could be better.

`mtkit doctor` prints it. A problem is one sentence with its remedy.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from mtkit import __version__
from mtkit.display import Table, count_of
from mtkit.hardware import available_cores, cpu_flags, cpu_name, free_memory, has_bf16
from mtkit.layers import matmul
from mtkit.native.library import VARIABLE, native
from mtkit.training.config import TrackerName

EXTRAS = {  # package: extra of mtkit that installs it
    **({"backports.zstd": "zst"} if sys.version_info < (3, 14) else {}),
    "ctranslate2": "export",
    "ray": "ray",
    "onnxruntime": "onnx",
    "transformers": "transformers",
    "huggingface_hub": "hub",
    "starlette": "serve",
    "openpyxl": "xlsx",
    "opustools": "data",
    "matplotlib": "plot",
    "sacremoses": "moses",
    **{name: name for name in get_args(TrackerName)},
    "gensim": "vectors",
    "mecab-python3": "ja",
    "mecab-ko": "ko",
}
X86 = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
INSTRUCTIONS = (*X86, "asimd", "sve", "bf16")  # the others are of ARM
SHAPE = (1024, 512, 512)  # rows, inputs and outputs of the measured products
SECONDS = 1.0  # of measurement for each number format
MIN_MEMORY, MIN_DISK = 4 << 30, 5 << 30  # bytes; the quickstart uses a fifth of each


@dataclass(frozen=True)
class Machine:
    """State of a machine.

    Attributes:
        versions: of mtkit, Python, torch and the optional packages (None: not installed).
        all_cores: of the machine, which the load is about.
        memory: free bytes.
        disk: free bytes of the current directory.
        load: processes that ran or waited in the last minute, on average; None: unknown.
        matmul: library of float32 products.
        native: state of the native library for translation, see inference/native.
        has_native: whether there is one.
        gflops: billions of additions and multiplications per second, by number format or library.
    """

    versions: dict[str, str | None]
    processor: str
    instructions: list[str]
    cores: int
    all_cores: int
    threads: int
    gpus: list[str]
    memory: int
    disk: int
    load: float | None
    matmul: str
    native: str
    has_native: bool
    gflops: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """The fields and `problems`, for JSON."""
        return {**asdict(self), "problems": self.problems()}

    def problems(self) -> list[str]:
        """Sentences about all that slows mtkit down or may stop it here, with remedies."""
        problems = []
        if self.threads > self.cores:
            problems.append(f"{self.threads} threads on {self.cores} cores are slow; set OMP_NUM_THREADS={self.cores}")
        elif self.threads < self.cores:
            problems.append(
                f"{self.threads} of {self.cores} cores are used; unset OMP_NUM_THREADS, or translate with --workers"
            )
        if self.load is not None and self.load > self.all_cores + 0.5:
            problems.append(
                f"load {self.load:.1f} on the {self.all_cores} cores of the machine: other programs compete, and "
                "measured speeds are too low; end them or wait"
            )
        if self.memory < MIN_MEMORY:
            problems.append(
                f"{self.memory / 2**30:.1f} GiB of free memory; lower training.batch_tokens, or end other programs"
            )
        if self.disk < MIN_DISK:
            problems.append(f"{self.disk / 2**30:.1f} GiB of free disk; pass --run-dir with a folder on another disk")
        if not self.has_native and os.environ.get(VARIABLE) != "0":
            problems.append(f"translation without the native library is slower: {self.native}")
        if not self.gpus and shutil.which("nvidia-smi"):
            problems.append(
                "there is an NVIDIA driver, but torch sees no GPU; install a torch with CUDA (https://pytorch.org)"
            )
        if not self.gpus and "+cpu" not in str(self.versions["torch"]) and sys.platform == "linux":
            problems.append(
                "torch was built for GPUs, and there is none; the CPU build is gigabytes smaller (see README.md)"
            )
        return problems


def inspect_machine(*, measure: bool = True) -> Machine:
    """Return the state of this machine; `measure`: with the speed of matrix products, which takes seconds."""
    flags = cpu_flags()
    return Machine(
        versions={
            "mtkit": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            **{package: _version(package) for package in EXTRAS},
        },
        processor=cpu_name(),
        instructions=[name for name in INSTRUCTIONS if name in flags],
        cores=available_cores(),
        all_cores=os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        gpus=[torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        memory=free_memory(torch.device("cpu")),
        disk=shutil.disk_usage(Path.cwd()).free,
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        matmul=matmul.chosen_library(),
        native=native().reason,
        has_native=native().functions is not None,
        gflops=_gflops() if measure else {},
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@torch.inference_mode()
def _gflops() -> dict[str, float]:
    rows, inputs, outputs = SHAPE
    x, weight = torch.ones(rows, inputs), torch.ones(outputs, inputs)
    products: dict[str, Callable[[], Tensor]] = {
        f"float32 {name}": partial(product, x, weight) for name, product in matmul.products().items()
    }
    if has_bf16(torch.device("cpu")):
        low, low_weight = x.bfloat16(), weight.bfloat16()
        products["bf16"] = lambda: low @ low_weight.mT
    small, small_weight = x.to(torch.int8), weight.to(torch.int8).T.contiguous()
    products["int8"] = lambda: torch._int_mm(small, small_weight)
    speeds = {}
    for name, product in products.items():
        shortest, end = float("inf"), time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            shortest = min(shortest, matmul.seconds_of(product))
        speeds[name] = 2e-9 * rows * inputs * outputs / shortest
    return speeds


def _of_torch(name: str, machine: Machine) -> str:
    """A remark on the speed of products in int8, which torch computes slowly on most processors."""
    if name != "int8":
        return ""
    return " by torch; translation uses the native library instead" if machine.has_native else " by torch"


def machine_table(machine: Machine) -> Table:
    """The state as a table: facts, speeds, problems."""
    missing = {name: extra for name, extra in EXTRAS.items() if machine.versions[name] is None}
    rows = [
        ("versions", ", ".join(f"{name} {version}" for name, version in machine.versions.items() if version)),
        ("processor", f"{machine.processor}: {' '.join(machine.instructions) or 'unknown instructions'}"),
        ("cores", f"{machine.cores}, {count_of(machine.threads, 'thread')}"),
        ("gpus", ", ".join(machine.gpus) or "none"),
        ("memory", f"{machine.memory / 2**30:.1f} GiB free"),
        ("disk", f"{machine.disk / 2**30:.1f} GiB free here"),
        ("float32", f"by {machine.matmul} ({matmul.VARIABLE}={'|'.join(matmul.LIBRARIES)} decides without measuring)"),
        ("translation", f"native library: {machine.native} ({VARIABLE} chooses another, 0 none)"),
        *(("speed", f"{name}: {rate:,.0f} GFLOP/s{_of_torch(name, machine)}") for name, rate in machine.gflops.items()),
        *(
            [("optional", f"{', '.join(missing)}: pip install 'mtkit[{','.join(missing.values())}]'")]
            if missing
            else []
        ),
        *(("problem", each) for each in machine.problems() or ["none"]),
    ]
    return Table(["property", "state"], rows, text=["property", "state"])
