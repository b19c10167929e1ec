"""Numerics: what the bits of a training's float arithmetic depend on, besides recipe, data and number of updates.

Sums of floats depend on their order. torch divides some of them among its threads (the gradient of a layer norm's
weights, the sum of all losses), and its kernels differ between versions, instruction sets and devices. Two trainings of
one recipe with equal numerics end with the same bits; with others they agree up to rounding, which training amplifies.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch

from mtkit.errors import ComputeError
from mtkit.layers.matmul import LIBRARIES, chosen_library, use_library
from mtkit.training.distributed.process_group import ProcessGroup


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
        """The record, as JSON; `matmul` is the library of float32 products on a CPU (see layers/matmul.py)."""
        return {**asdict(self), "threads": list(self.threads), "matmul": chosen_library()}

    def use_same_library(self, before: Mapping[str, Any]) -> None:
        """Compute products by the library of an earlier record, if that is of the same kind of processor."""
        if before.get("cpu") == self.cpu and before.get("matmul") in LIBRARIES:
            use_library(before["matmul"])

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


# without it cuBLAS may choose another algorithm in each run, and torch's deterministic mode refuses matrix products
_WORKSPACE = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


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
    os.environ.setdefault(*_WORKSPACE)
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
