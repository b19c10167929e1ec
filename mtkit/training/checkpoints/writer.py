"""Background writing of checkpoints, and removal of those that `training.keep` does not retain."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from mtkit.hardware import require_thread_memory
from mtkit.training.checkpoints.checkpoint import (
    Checkpoint,
    checkpoint_path,
    list_checkpoints,
    remove_checkpoint,
    write_checkpoint,
)


class CheckpointWriter:
    """One background thread that writes one checkpoint at a time.

    The error of a failed write is raised by the next call of `check`, `submit` or `wait`.

    Args:
        folder: of the checkpoints.
        should_keep: called with (update, all updates that have a checkpoint) when a newer checkpoint is submitted;
            whether the checkpoint of `update` is retained.

    Attributes:
        seconds: processor time in which the last checkpoint was written; 0: there was none.
    """

    def __init__(self, folder: Path, *, should_keep: Callable[[int, list[int]], bool]) -> None:
        self.folder = folder
        self._should_keep = should_keep
        require_thread_memory()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._running: Future[None] | None = None
        self.seconds = 0.0

    def submit(self, update: int, checkpoint: Checkpoint) -> bool:
        """Start writing a checkpoint after waiting for the previous one.

        Args:
            update: number of updates applied.
            checkpoint: its tensors must be copies that nothing modifies.

        Returns:
            Whether it is written; False if the update has a checkpoint already.
        """
        self.wait()
        path = checkpoint_path(self.folder, update)
        if path.exists():
            return False
        present = [*list_checkpoints(self.folder), update]
        unneeded = [u for u in present if u < update and not self._should_keep(u, present)]
        self._running = self._thread.submit(self._write, checkpoint, path, unneeded)
        return True

    def _write(self, checkpoint: Checkpoint, path: Path, unneeded: list[int]) -> None:
        start = time.thread_time()
        write_checkpoint(checkpoint, path)
        self.seconds = time.thread_time() - start
        for update in unneeded:  # only after the new one is on the disk
            remove_checkpoint(checkpoint_path(self.folder, update))

    def check(self) -> None:
        """Raise the error of a write that has failed."""
        if self._running is not None and self._running.done():
            self.wait()

    def wait(self) -> None:
        """Wait until the submitted checkpoint is on the disk; raise its error."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self, *, wait: bool) -> None:
        """End the thread once its write is done; with `wait`, raise the write's error."""
        try:
            if wait:
                self.wait()
        finally:
            self._thread.shutdown(wait=True)
