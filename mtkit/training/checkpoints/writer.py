"""Writes checkpoints behind the back of the training loop, and removes those that are no longer wanted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mtkit.training.checkpoints.checkpoint import (
    Checkpoint,
    checkpoint_path,
    list_checkpoints,
    remove_checkpoint,
    write_checkpoint,
)


@dataclass(frozen=True, kw_only=True)
class KeepConfig:
    """Which checkpoints stay; those that the final average needs stay anyway."""

    last: Annotated[int, Field(gt=0)] = 2  # two, so that damage to the newest costs little
    best: Annotated[int, Field(gt=0)] = 1  # by training.validation.metric
    every: Annotated[int, Field(gt=0)] | None = None  # updates; multiples of it stay for ever


class CheckpointWriter:
    """One background thread that writes one checkpoint at a time.

    A failure is raised by the next call of `check`, `submit` or `wait`.
    """

    def __init__(self, folder: Path, *, is_wanted: Callable[[int, list[int]], bool]) -> None:
        """`is_wanted(update, all updates)` says at the time of its call whether an older checkpoint must stay."""
        self.folder = folder
        self._is_wanted = is_wanted
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._running: Future[None] | None = None

    def submit(self, update: int, checkpoint: Checkpoint) -> bool:
        """Begin to write; waits for the one before.

        Its tensors must be copies that nobody changes. An update that is already saved is not written again; says
        whether this one is.
        """
        self.wait()
        path = checkpoint_path(self.folder, update)
        if path.exists():
            return False
        present = [*list_checkpoints(self.folder), update]
        unwanted = [u for u in present if u < update and not self._is_wanted(u, present)]
        self._running = self._thread.submit(self._write, checkpoint, path, unwanted)
        return True

    def _write(self, checkpoint: Checkpoint, path: Path, unwanted: list[int]) -> None:
        write_checkpoint(checkpoint, path)
        for update in unwanted:
            remove_checkpoint(checkpoint_path(self.folder, update))

    def check(self) -> None:
        """Raise the failure of a write that has ended, if there was one."""
        if self._running is not None and self._running.done():
            self.wait()

    def wait(self) -> None:
        """Wait until what was submitted is on the disk; raise its failure."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self, *, wait: bool) -> None:
        """End the thread after what it is writing; with `wait` raise its failure."""
        try:
            if wait:
                self.wait()
        finally:
            self._thread.shutdown(wait=True)
