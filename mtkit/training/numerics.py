"""Numerics of a training: the number format, the seeds of its random numbers, and what its bits depend on besides.

Random numbers of a micro-batch depend on (seed, update, micro-batch) only. Checkpoints therefore store no generator
state, resuming is exact, and random numbers that a validation draws have no effect on the training.

Sums of floats depend on their order. torch divides some of them among its threads (the gradient of a layer norm's
weights, the sum of all losses), and its kernels differ between versions, instruction sets and devices. Two trainings of
one recipe with equal numerics end with the same bits; with others they agree up to rounding, which training amplifies.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import torch

from mtkit.errors import ComputeError, RecipeError
from mtkit.hardware import has_bf16
from mtkit.layers.matmul import LIBRARIES, chosen_library, use_library
from mtkit.layers.native_kernels import kernels_in_use, use_kernels
from mtkit.models.interface import TranslationModel
from mtkit.training.config import PrecisionName
from mtkit.training.distributed import ProcessGroup


@dataclass(frozen=True)
class Precision:
    """Number format on a device.

    Attributes:
        name: float32, bf16 or fp16; never auto.
        device: type of the device, `cpu` or `cuda`.
        dtype: of matrix products; None for that of the weights.
    """

    name: PrecisionName
    device: str
    dtype: torch.dtype | None

    def autocast(self) -> AbstractContextManager[object]:
        """Return the context of a forward pass."""
        return nullcontext() if self.dtype is None else torch.autocast(self.device, self.dtype)


def resolve_precision(requested: PrecisionName, device: torch.device) -> Precision:
    """Return the format that `training.precision` selects on a device.

    `auto` selects bf16 only where the hardware has instructions for it, since emulated bf16 is slower than float32.

    Raises:
        RecipeError: fp16 without a GPU.
    """
    if requested == "fp16" and device.type != "cuda":
        raise RecipeError("training.precision: fp16 needs a GPU; choose bf16, float32 or auto")
    name: PrecisionName = requested if requested != "auto" else ("bf16" if has_bf16(device) else "float32")
    dtypes: dict[PrecisionName, torch.dtype | None] = {"float32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
    return Precision(name=name, device=device.type, dtype=dtypes[name])


def compile_model(model: TranslationModel) -> None:
    """Compile the layers of a model for training, on the device where it is; see CompiledCall.

    The code around the layers, validation and search stay in eager mode. The names of the weights do not change.

    Raises:
        RecipeError: torch cannot compile on this machine.
    """
    device = next(model.parameters()).device
    try:
        torch.compile(torch.neg)(torch.zeros(2, device=device))  # fails at once without a compiler
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        requirement = "a C++ compiler such as g++" if device.type == "cpu" else "triton and a C compiler"
        raise RecipeError(
            f"training.compile: torch cannot compile here ({reason}); install {requirement}, or set it to false"
        ) from error
    model.compile_layers()


def derive_seed(*numbers: int) -> int:
    """Return a 63-bit seed that depends on all numbers and their order."""
    text = ",".join(str(number) for number in numbers)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def seed_everything(*numbers: int) -> None:
    """Seed the generators of Python, NumPy and torch (CPU and all devices) from the numbers."""
    seed = derive_seed(*numbers)
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    torch.manual_seed(seed)


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """The record in report.json and in each checkpoint.

    Attributes:
        threads: CPU threads of each process of the training, in the order of ranks.
        torch_version: such as 2.9.1+cpu.
        cpu: instruction set of torch's CPU kernels, such as AVX2.
        device: cpu, or the name of the GPU.
    """

    threads: tuple[int, ...]
    torch_version: str
    cpu: str
    device: str

    @classmethod
    def of(cls, device: torch.device, ranks: ProcessGroup) -> Self:
        """The numerics of a training that is about to begin on this device; a collective operation."""
        threads = ranks.all_gather_text(json.dumps(torch.get_num_threads()))
        return cls(
            threads=tuple(json.loads(each) for each in threads),
            torch_version=torch.__version__,
            cpu=torch.backends.cpu.get_cpu_capability(),
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        )

    def to_json(self) -> dict[str, Any]:
        """The record, as JSON, with the libraries of products on a CPU (layers/matmul.py) and the kernels."""
        libraries = {"matmul": chosen_library(), "kernels": kernels_in_use()}
        if has_bf16(torch.device("cpu")):
            libraries["matmul_bf16"] = chosen_library(torch.bfloat16)
        return {**asdict(self), "threads": list(self.threads), **libraries}

    def use_same_library(self, before: Mapping[str, Any]) -> None:
        """Compute by the libraries and kernels of an earlier record, if that is of the same kind of processor."""
        if before.get("cpu") == self.cpu and before.get("matmul") in LIBRARIES:
            use_library(before["matmul"])
            # records of earlier versions, which had no other choice, lack these
            use_library(before.get("matmul_bf16", "onednn"), torch.bfloat16)
            use_kernels(before.get("kernels", "torch"))

    def changes_since(self, before: Mapping[str, Any]) -> list[str]:
        """Differences from an earlier record, as "threads 2 instead of 1", in the entries that the record has."""
        now = self.to_json()
        return [
            f"{name.replace('_', ' ')} {_text(value)} instead of {_text(before[name])}"
            for name, value in now.items()
            if name in before and before[name] != value
        ]


def _text(value: Any) -> str:
    return " + ".join(map(str, value)) if isinstance(value, list) else str(value)


@contextmanager
def deterministic_algorithms(*, enabled: bool) -> Iterator[None]:
    """Make torch refuse nondeterministic kernels within the block, if enabled.

    Enter it before the first matrix product on a GPU. The user's environment variable takes precedence.

    Raises:
        ComputeError: an operation has no deterministic kernel; the message names it.
    """
    if not enabled:
        yield
        return
    # without it cuBLAS may choose another algorithm in each run, and torch's deterministic mode refuses matrix products
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    except RuntimeError as error:
        if "use_deterministic_algorithms" not in str(error):
            raise
        kernel = str(error).partition(",")[0]
        raise ComputeError(f"training.deterministic: {kernel} on this device; set it to false") from error
    finally:
        torch.use_deterministic_algorithms(before)
