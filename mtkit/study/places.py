"""Where the runs of a study compute when several do at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from mtkit.errors import UsageError
from mtkit.hardware import find_device


@dataclass(frozen=True)
class Place:
    """Room for one run: a share of the processor, or a GPU; `environment` confines a process to it."""

    name: str
    environment: Mapping[str, str]


def share_of_cpu(count: int) -> list[Place]:
    """So many places with equally many threads."""
    threads = max(1, torch.get_num_threads() // count)
    return [Place(f"{threads} threads", {"OMP_NUM_THREADS": str(threads)})] * count


def gpus(names: Sequence[str]) -> list[Place]:
    """A place on each GPU, such as cuda:0.

    Raises:
        UsageError: a name is not that of a GPU, or not of one that is here.
    """
    places = []
    for name in names:
        device = find_device(name)
        if device.type != "cuda":
            raise UsageError(f"device {name}: not a GPU such as cuda:0; --parallel N divides the processor")
        seen = _visible(torch.cuda.device_count())
        places.append(Place(name, {"CUDA_VISIBLE_DEVICES": seen[device.index or 0]}))
    return places


def _visible(count: int) -> list[str]:
    """What CUDA_VISIBLE_DEVICES must say for each of the GPUs that this process sees."""
    stated = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return stated.split(",") if stated else [str(number) for number in range(count)]
