"""What happens when a loss or a gradient is not a finite number: nothing to the weights, and the evidence is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.io.files import build_folder
from mtkit.training.checkpoints.tensor_file import read_tensors, write_tensors

OnNonFinite = Literal["stop", "skip"]


@dataclass(frozen=True)
class Evidence:
    """An update that could not be applied.

    Attributes:
        batches: its micro-batches.
        facts: update, seed, loss, grad_norm, samples ...
    """

    batches: Sequence[Batch]
    facts: Mapping[str, Any]


def some(samples: Sequence[int]) -> str:
    """Numbers of samples for a message, which has no room for all."""
    shown = ", ".join(str(sample) for sample in samples[:8])
    return shown if len(samples) <= 8 else f"{shown} and {len(samples) - 8} more"


def _flatten(batch: Batch) -> dict[str, Tensor]:
    source = {f"source.{name}": tensor for name, tensor in vars(batch.source).items()}
    target = {f"target.{name}": tensor for name, tensor in vars(batch.target).items()}
    return {**source, **target, "labels": batch.labels, "scored": batch.scored, "samples": batch.samples}


def _unflatten(tensors: Mapping[str, Tensor]) -> Batch:
    source = Source(**{n.removeprefix("source."): t for n, t in tensors.items() if n.startswith("source.")})
    target = Target(**{n.removeprefix("target."): t for n, t in tensors.items() if n.startswith("target.")})
    return Batch(source, target, tensors["labels"], tensors["scored"], tensors["samples"])


def write_evidence(evidence: Evidence, path: Path) -> None:
    """Write the micro-batches and the facts to the folder `path`, so that the update can be replayed.

    Raises:
        ReadWriteError: it cannot be written.
    """
    with build_folder(path) as folder:
        tensors = {}
        for number, batch in enumerate(evidence.batches):
            tensors.update({f"{number}.{name}": torch.as_tensor(t).cpu() for name, t in _flatten(batch).items()})
        write_tensors(folder / "batches.safetensors", tensors)
        (folder / "facts.json").write_text(json.dumps(evidence.facts, indent=2), encoding="utf-8")


def read_evidence(path: Path) -> Evidence:
    """Read what `write_evidence` wrote.

    Raises:
        MissingInputError, ReadWriteError, DataError: there is none, or it cannot be read.
    """
    by_batch: dict[int, dict[str, Tensor]] = {}
    for full_name, tensor in read_tensors(path / "batches.safetensors").items():
        number, _, name = full_name.partition(".")
        by_batch.setdefault(int(number), {})[name] = tensor
    facts = json.loads((path / "facts.json").read_text(encoding="utf-8"))
    return Evidence([_unflatten(by_batch[number]) for number in sorted(by_batch)], facts)
