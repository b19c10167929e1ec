"""Updates whose loss or gradient is not finite: their micro-batches are dumped for inspection."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch
from mtkit.io.files import atomic_folder
from mtkit.training.checkpoints.tensor_file import write_tensors


def abbreviate(sample_ids: Sequence[int]) -> str:
    """List at most eight sample ids for a message."""
    listed = ", ".join(str(sample) for sample in sample_ids[:8])
    return listed if len(sample_ids) <= 8 else f"{listed} and {len(sample_ids) - 8} more"


def dump_failed_update(batches: Sequence[Batch], facts: Mapping[str, Any], path: Path) -> None:
    """Write the micro-batches of an update that was not applied, so that it can be reproduced.

    Args:
        batches: written to batches.safetensors, as NUMBER.source.ids, NUMBER.labels, ...
        facts: update, seed, loss, grad_norm and sample ids; written to facts.json.
        path: a new folder.

    Raises:
        ReadWriteError: it cannot be written.
    """
    with atomic_folder(path) as folder:
        tensors = {}
        for number, batch in enumerate(batches):
            tensors.update({f"{number}.{name}": torch.as_tensor(t).cpu() for name, t in _flatten(batch).items()})
        write_tensors(folder / "batches.safetensors", tensors)
        (folder / "facts.json").write_text(json.dumps(facts, indent=2), encoding="utf-8")


def _flatten(batch: Batch) -> dict[str, Tensor]:
    source = {f"source.{name}": tensor for name, tensor in vars(batch.source).items()}
    target = {f"target.{name}": tensor for name, tensor in vars(batch.target).items()}
    others = {"labels": batch.labels, "loss_mask": batch.loss_mask, "sample_ids": batch.sample_ids}
    return {**source, **target, **others}
