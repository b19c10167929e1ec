"""Batches of similar length within a budget of tokens, and halves of them where a batch cannot be computed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from mtkit.errors import ComputeError, DataError, describe_oom, is_oom

T = TypeVar("T")
R = TypeVar("R")
ItemError = DataError | ComputeError  # the model refuses an item, or memory runs out for it alone
Cost = Callable[[T], int]  # tokens that an item takes in a batch of items no longer than itself


def name_line(line: int, error: ItemError, *, remedy: str) -> ItemError:
    """The error with the number of its line; with a remedy if memory ran out."""
    if isinstance(error, ComputeError):
        return ComputeError(f"line {line}: {error}; {remedy}")
    return DataError(f"line {line}: {error}")


class BatchBudget:
    """Largest batches; they shrink when memory runs out.

    Attributes:
        tokens: items × cost of the longest item of a batch, at most, unless it has one item.
    """

    def __init__(self, tokens: int, report_oom: Callable[[int], None] | None = None) -> None:
        """Take the size.

        Args:
            tokens: see the attribute.
            report_oom: called with the size once it had to be reduced for the first time.
        """
        self.tokens = tokens
        self._report_oom = report_oom

    def batches(self, items: Iterable[T], cost: Cost[T]) -> Iterator[list[T]]:
        """Yield batches of similar length, the longest first."""
        waiting = sorted(items, key=lambda item: -cost(item))
        start = 0
        while start < len(waiting):
            count = max(1, self.tokens // cost(waiting[start]))
            yield waiting[start : start + count]
            start += count

    def compute(
        self, batch: Sequence[T], cost: Cost[T], run: Callable[[Sequence[T]], Sequence[R]]
    ) -> list[R | ItemError]:
        """Run a function on a batch; again on halves if memory runs out or the model refuses an item.

        Args:
            batch: items, the longest first.
            cost: as for `batches`.
            run: returns a result for each item. It raises DataError if an item is too long for the model.

        Returns:
            The result of each item, or the error of an item that the model refuses or that does not fit into memory
            in a batch of its own.

        Raises:
            RuntimeError: another error of `run`.
        """
        if not batch:
            return []
        is_out_of_memory = False
        try:
            return [*run(batch)]
        except DataError as error:
            if len(batch) == 1:
                return [error]
        except (RuntimeError, MemoryError) as error:
            if not is_oom(error):
                raise
            if len(batch) == 1:
                return [ComputeError(f"{describe_oom(error)} in a batch of this line alone")]
            is_out_of_memory = True
        middle = len(batch) // 2
        if is_out_of_memory:  # outside of `except`, where the exception keeps tensors alive
            self._shrink(middle * cost(batch[0]))
        halves = batch[:middle], batch[middle:]
        return [result for half in halves for result in self.compute(half, cost, run)]

    def _shrink(self, tokens: int) -> None:
        self.tokens = min(self.tokens, tokens)
        if self._report_oom is not None:
            self._report_oom(self.tokens)
            self._report_oom = None
        if "torch" in sys.modules:
            import torch

            torch.cuda.empty_cache()  # the failed attempt has fragmented the memory; without a GPU it does nothing
