"""Event files for TensorBoard (`training.trackers`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mtkit.errors import MissingExtraError
from mtkit.training.monitoring.log import Log

PLOTTED_EVENTS = frozenset({"train", "validation"})  # events with scalars


class TensorBoard:
    """Display that writes event files; updates that a resumed training repeats appear once.

    Args:
        folder: of the event files; created if missing.
        update: last update of the existing event files that remains valid.

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
        """Write the scalars of a training event."""
        if name in PLOTTED_EVENTS:
            for key, number in scalars(name, fields):
                self._writer.add_scalar(key, number, update)

    def close(self) -> None:
        """Write buffered events and close the files."""
        self._writer.close()


def scalars(name: str, value: object) -> Iterator[tuple[str, float]]:
    """Yield every number of nested mappings with its path, such as train/modules/encoder/grad_norm."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from scalars(f"{name}/{key}", item)
    elif isinstance(value, int | float):
        yield name, float(value)


@contextmanager
def log_to_tensorboard(log: Log, folder: Path, update: int, *, enabled: bool) -> Iterator[None]:
    """Write the events of the block for TensorBoard too, if enabled; see TensorBoard for arguments and errors."""
    if not enabled:
        yield
        return
    board = TensorBoard(folder, update)
    try:
        with log.with_display(board):
            yield
    finally:
        board.close()
