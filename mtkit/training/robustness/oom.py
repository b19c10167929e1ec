"""What happens when memory does not suffice for a micro-batch: on a GPU it is cut, on a CPU training stops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch

from mtkit.corpus.order.batch import Batch, Source, Target
from mtkit.errors import TrainingError

REMEDY = "set training.activation_checkpointing: true, or take a smaller model"


Exhausted = RuntimeError | MemoryError  # as torch and Python say that there is no memory


def is_out_of_memory(error: Exhausted) -> bool:
    """Whether an error means this; torch has no type of its own for a CPU."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error)


@contextmanager
def remedied() -> Iterator[None]:
    """A block in which running out of memory raises a TrainingError that says what to do."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(
            f"training ran out of memory; lower training.batch_tokens (and raise training.micro_batches as much, for "
            f"the same update), {REMEDY}; what was saved is untouched"
        ) from error


class Room:
    """The places, sentences × longest side, for which there has turned out to be memory.

    Args:
        can_cut: whether a micro-batch that does not fit is cut. On a CPU it is not: there the system ends a process,
            or swaps, long before it refuses memory. Nor is it where processes share the weights of one model: in the
            midst of a pass the others wait for this one.
    """

    def __init__(self, *, can_cut: bool) -> None:
        self.can_cut = can_cut
        self.places: int | None = None  # None: nothing has failed yet

    def parts(self, batch: Batch) -> list[Batch]:
        """A micro-batch in equal parts, as many as needed; none if it is empty."""
        sentences, length = batch.num_sentences, _length(batch)
        if not sentences:
            return []
        most = sentences if self.places is None else max(1, self.places // length)  # sentences of a part
        count = -(-sentences // most)
        bounds = [number * sentences // count for number in range(count + 1)]
        return [_rows(batch, slice(begin, end)) for begin, end in pairwise(bounds)]

    def shrink(self, batches: Sequence[Batch]) -> None:
        """From now on halve what the largest of these micro-batches comes to, as it did not fit.

        Raises:
            TrainingError: a part is a single sentence already.
        """
        parts = [part for batch in batches for part in self.parts(batch)]
        largest = max(parts, key=lambda part: part.num_sentences * _length(part))
        if largest.num_sentences == 1:
            raise TrainingError(f"a single sentence of {_length(largest)} tokens does not fit into memory; {REMEDY}")
        self.places = largest.num_sentences // 2 * _length(largest)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # what failed has left the memory in pieces


def _length(batch: Batch) -> int:
    return max(1, batch.source.ids.size(1), batch.target.ids.size(1))


def stand_in(batch: Batch) -> Batch:
    """One sentence of one token of which nothing is scored, for a process that has no sentence but must keep step."""
    ids = batch.labels.new_zeros(1, 1)  # [1, 1]
    real = torch.ones_like(ids, dtype=torch.bool)
    samples = batch.samples.new_zeros(1)
    return Batch(Source(ids, real, ids), Target(ids, real, ids), ids, torch.zeros_like(real), samples)


def _rows(batch: Batch, rows: slice) -> Batch:
    source, target = batch.source, batch.target
    return Batch(
        source=Source(source.ids[rows], source.real[rows], source.pos[rows]),
        target=Target(target.ids[rows], target.real[rows], target.pos[rows]),
        labels=batch.labels[rows],
        scored=batch.scored[rows],
        samples=batch.samples[rows],
    )
