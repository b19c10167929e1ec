"""Micro-batches that do not fit into memory, which are split on a GPU, and those whose loss is not finite."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.errors import ComputeError, is_oom
from mtkit.io.files import atomic_folder
from mtkit.training.checkpoints.tensor_file import write_tensors

HINT = "set training.activation_checkpointing: true, or choose a smaller model"


@contextmanager
def explain_oom(
    name: str = "training",
    remedy: str = "lower training.batch_tokens (and raise training.micro_batches by the same factor, for the same "
    f"update), {HINT}",
) -> Iterator[None]:
    """Raise an out-of-memory exception of the block as a ComputeError that names what ran out of memory."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_oom(error):
            raise
        raise ComputeError(f"{name} ran out of memory; {remedy}; saved checkpoints are not affected") from error


class MicroBatchSplitter:
    """Splits micro-batches that do not fit into memory; the limit is learned from failures.

    Args:
        can_split: whether a micro-batch that does not fit is split. On a CPU it is not: the system kills a process or
            swaps long before it refuses memory. With FSDP it is not either: the other processes are waiting for this
            one in the middle of a pass.

    Attributes:
        max_padded_tokens: sentences × length of the longest side that fit; None while nothing has failed.
    """

    def __init__(self, *, can_split: bool) -> None:
        self.can_split = can_split
        self.max_padded_tokens: int | None = None

    def split(self, batch: Batch) -> list[Batch]:
        """Split a micro-batch into the fewest parts of equal size that fit; an empty one has none."""
        sentences, length = batch.num_sentences, _length(batch)
        if not sentences:
            return []
        limit = self.max_padded_tokens
        max_sentences = sentences if limit is None else max(1, limit // length)
        count = -(-sentences // max_sentences)
        bounds = [number * sentences // count for number in range(count + 1)]
        source, target, parts = batch.source, batch.target, []
        for rows in (slice(begin, end) for begin, end in pairwise(bounds)):
            part = Batch(
                source=Source(source.ids[rows], source.real[rows], source.pos[rows]),
                target=Target(target.ids[rows], target.real[rows], target.pos[rows]),
                labels=batch.labels[rows],
                loss_mask=batch.loss_mask[rows],
                sample_ids=batch.sample_ids[rows],
            )
            parts.append(part)
        return parts

    def halve(self, batches: Sequence[Batch]) -> None:
        """Lower the limit to half of the largest part of these micro-batches, which did not fit.

        Raises:
            ComputeError: that part is a single sentence.
        """
        parts = [part for batch in batches for part in self.split(batch)]
        largest = max(parts, key=lambda part: part.num_sentences * _length(part))
        if largest.num_sentences == 1:
            raise ComputeError(f"a single sentence of {_length(largest)} tokens does not fit into memory; {HINT}")
        self.max_padded_tokens = largest.num_sentences // 2 * _length(largest)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # the failed attempt has fragmented the memory

    def adopt_smallest(self, limits: Iterable[int | None]) -> None:
        """Adopt the smallest of the limits of all ranks, so that each splits a micro-batch in the same way."""
        self.max_padded_tokens = min(filter(None, limits), default=None)


def _length(batch: Batch) -> int:
    return max(1, batch.source.ids.size(1), batch.target.ids.size(1))


def dummy_micro_batch(batch: Batch) -> Batch:
    """Return one sentence of one token without labels to score, for a rank without data whose passes others await."""
    ids = batch.labels.new_zeros(1, 1)  # [1, 1]
    real = torch.ones_like(ids, dtype=torch.bool)
    sample_ids = batch.sample_ids.new_zeros(1)
    return Batch(Source(ids, real, ids), Target(ids, real, ids), ids, torch.zeros_like(real), sample_ids)


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
        tensors: dict[str, Tensor] = {}
        for number, batch in enumerate(batches):
            by_name = {f"source.{name}": tensor for name, tensor in vars(batch.source).items()}
            by_name |= {f"target.{name}": tensor for name, tensor in vars(batch.target).items()}
            by_name |= {"labels": batch.labels, "loss_mask": batch.loss_mask, "sample_ids": batch.sample_ids}
            tensors |= {f"{number}.{name}": torch.as_tensor(tensor).cpu() for name, tensor in by_name.items()}
        write_tensors(folder / "batches.safetensors", tensors)
        (folder / "facts.json").write_text(json.dumps(facts, indent=2), encoding="utf-8")
