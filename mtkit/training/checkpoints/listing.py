"""What checkpoints a run has, and whether each is whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mtkit.errors import DamagedError, MissingInputError
from mtkit.training.checkpoints.checkpoint import DAMAGED, list_checkpoints, read_state, verify_checkpoint


@dataclass(frozen=True)
class Surveyed:
    """One checkpoint.

    Attributes:
        path: its folder.
        update: how many updates had been applied; None for one that was set aside as damaged.
        size: bytes on the disk.
        fault: why it cannot be used, None if it is whole.
        rank: its place among the best validations so far, as the newest whole checkpoint knows them; 1 is the best.
    """

    path: Path
    update: int | None
    size: int
    fault: str | None
    rank: int | None = None

    def line(self) -> str:
        """For a person."""
        name = self.path.name if self.update is None else f"update {self.update:,}"
        best = {None: "", 1: "  best"}.get(self.rank, f"  best but {(self.rank or 1) - 1}")
        return f"{name:<16}  {self.size / 1e6:9,.1f} MB  {self.fault or 'whole'}{best}"


def survey(run: Path) -> list[Surveyed]:
    """Compare every byte of a run's checkpoints with their manifests, oldest first; changes nothing.

    Args:
        run: a run folder, or its folder of checkpoints.

    Raises:
        MissingInputError: there are no checkpoints.
        DataError: one was written by a newer mtkit.
    """
    folder = run / "checkpoints" if (run / "checkpoints").is_dir() else run
    paths = list_checkpoints(folder)
    aside = sorted(folder.glob(f"{DAMAGED}*")) if folder.is_dir() else []
    if not paths and not aside:
        raise MissingInputError(f"{run}: has no checkpoints; nothing was trained there yet")
    faults = {update: _fault(path) for update, path in paths.items()}
    # a training that runs removes what it has no use for, meanwhile
    paths = {update: path for update, path in paths.items() if path.exists()}
    whole = [path for update, path in paths.items() if faults[update] is None]
    ranking = _ranking(whole)
    found = [
        Surveyed(path, update, _size(path), faults[update], ranking.index(update) + 1 if update in ranking else None)
        for update, path in paths.items()
    ]
    return found + [Surveyed(path, None, _size(path), "damaged, set aside") for path in aside]


def _fault(path: Path) -> str | None:
    try:
        verify_checkpoint(path)
    except (DamagedError, MissingInputError) as error:
        return str(error).removeprefix(f"{path}: ")
    return None


def _ranking(whole: Sequence[Path]) -> list[int]:
    """The updates of the best validations, best first, as the newest of these checkpoints knows them."""
    for path in reversed(whole):
        with suppress(FileNotFoundError):
            return [one["update"] for one in read_state(path)["progress"]["ranking"]["best"]]
    return []


def _size(path: Path) -> int:
    size = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(FileNotFoundError):
                size += Path(folder, name).lstat().st_size
    return size
