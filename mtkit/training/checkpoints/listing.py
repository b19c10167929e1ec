"""Checkpoints of a run with their size, validity and validation rank."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mtkit.errors import DamagedError, MissingInputError
from mtkit.io.table import Table
from mtkit.training.checkpoints.checkpoint import QUARANTINE_PREFIX, list_checkpoints, read_state, verify_checkpoint


@dataclass(frozen=True)
class CheckpointInfo:
    """One checkpoint.

    Attributes:
        path: its folder.
        update: number of updates applied; None for a damaged one that was moved to quarantine.
        size: bytes on disk.
        error: why it cannot be used; None if it is intact.
        rank: its rank among the best validations, 1 for the best, as the newest intact checkpoint lists them; None if
            it is not among them.
    """

    path: Path
    update: int | None
    size: int
    error: str | None
    rank: int | None = None


def checkpoint_table(checkpoints: Sequence[CheckpointInfo]) -> Table:
    """Table with one row for each checkpoint."""
    rows = [
        [
            each.path.name if each.update is None else f"update {each.update:,}",
            f"{each.size / 1e6:,.1f}",
            "" if each.rank is None else str(each.rank),
            each.error or "intact",
        ]
        for each in checkpoints
    ]
    return Table(["checkpoint", "MB", "rank", "state"], rows, text=["checkpoint", "state"])


def inspect_checkpoints(run: Path) -> list[CheckpointInfo]:
    """Compare every byte of a run's checkpoints with their manifests, oldest first, without changing anything.

    Args:
        run: a run folder, or its folder of checkpoints.

    Raises:
        MissingInputError: there are no checkpoints.
        DataError: a checkpoint was written by a newer mtkit.
    """
    folder = run / "checkpoints" if (run / "checkpoints").is_dir() else run
    paths = list_checkpoints(folder)
    quarantined = sorted(folder.glob(f"{QUARANTINE_PREFIX}*")) if folder.is_dir() else []
    if not paths and not quarantined:
        raise MissingInputError(f"{run}: has no checkpoints; nothing has been trained there yet")
    errors = {update: _error(path) for update, path in paths.items()}
    # a running training may have removed checkpoints meanwhile
    paths = {update: path for update, path in paths.items() if path.exists()}
    best = _best_updates([path for update, path in paths.items() if errors[update] is None])
    listed = [
        CheckpointInfo(path, update, _size(path), errors[update], best.index(update) + 1 if update in best else None)
        for update, path in paths.items()
    ]
    return listed + [CheckpointInfo(path, None, _size(path), "damaged, in quarantine") for path in quarantined]


def _error(path: Path) -> str | None:
    try:
        verify_checkpoint(path)
    except (DamagedError, MissingInputError) as error:
        return str(error).removeprefix(f"{path}: ")
    return None


def _best_updates(intact: Sequence[Path]) -> list[int]:
    """Return the updates of the best validations, best first, as the newest of these checkpoints lists them."""
    for path in reversed(intact):
        with suppress(FileNotFoundError):
            return [one["update"] for one in read_state(path)["progress"]["best_updates"]["ranked"]]
    return []


def _size(path: Path) -> int:
    size = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(FileNotFoundError):
                size += Path(folder, name).lstat().st_size
    return size
