"""Curves for TensorBoard, beside the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mtkit.errors import MissingExtraError
from mtkit.training.monitoring.log import Log

CURVES = frozenset({"train", "validation"})  # the events that have numbers to draw


class TensorBoard:
    """A display that writes event files; of a resumed training the updates that are repeated are drawn once.

    Args:
        folder: of the event files; made if missing.
        update: the last one that counts of what was written before.

    Raises:
        MissingExtraError: tensorboard is not installed.
    """

    def __init__(self, folder: Path, update: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError("tensorboard", "tensorboard") from error
        self._writer = SummaryWriter(folder, purge_step=update + 1)

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        """Write the numbers of an event of training, those of a part under its name."""
        if name in CURVES:
            for key, number in numbers(name, fields):
                self._writer.add_scalar(key, number, update)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


def numbers(name: str, value: object) -> Iterator[tuple[str, float]]:
    """Every number of nested mappings, by its path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from numbers(f"{name}/{key}", item)
    elif isinstance(value, int | float):
        yield name, float(value)


@contextmanager
def curves(log: Log, folder: Path, update: int, *, is_wanted: bool) -> Iterator[None]:
    """A block whose events TensorBoard is shown too, if that is wanted; arguments and errors as TensorBoard."""
    if not is_wanted:
        yield
        return
    board = TensorBoard(folder, update)
    try:
        with log.shown_to(board):
            yield
    finally:
        board.close()
