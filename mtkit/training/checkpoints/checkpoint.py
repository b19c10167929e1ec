"""Checkpoints: folders `update-00001000/` of safetensors and JSON files, written atomically and in the background.

manifest.json holds the SHA-256 of every other file and of itself, so that no damaged file is ever loaded unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from mtkit import __version__
from mtkit.display import Table
from mtkit.errors import DamagedError, FormatError, MissingInputError
from mtkit.hardware import require_thread_memory
from mtkit.io.files import atomic_folder, hash_file, read_file, translate_write_errors
from mtkit.io.json_text import parse_json
from mtkit.io.lock import clean_up_folder
from mtkit.training.checkpoints.tensor_file import read_tensors, write_tensors

FORMAT = 2  # raised when older versions cannot read what this version writes
PREFIX = "update-"
QUARANTINE_PREFIX = "damaged-"


@dataclass(frozen=True)
class Checkpoint:
    """State that a training resumes from.

    Attributes:
        tensors: by file (model, optimiser, ema) and name.
        state: all other state, as JSON.
    """

    tensors: Mapping[str, Mapping[str, Tensor]]
    state: Mapping[str, Any]


def checkpoint_path(folder: Path, update: int) -> Path:
    """Return the path of the checkpoint of an update in `folder`."""
    return folder / f"{PREFIX}{update:08d}"


def list_checkpoints(folder: Path) -> dict[int, Path]:
    """Return the checkpoints in `folder` by update, oldest first, without verifying them."""
    paths = [p for p in folder.iterdir() if p.name.startswith(PREFIX)] if folder.is_dir() else []
    checkpoints = {int(p.name.removeprefix(PREFIX)): p for p in paths if p.name.removeprefix(PREFIX).isdecimal()}
    return dict(sorted(checkpoints.items()))


def write_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint durably.

    Args:
        checkpoint: its tensors must be on the CPU and not be modified meanwhile.
        path: its folder, which does not exist.

    Raises:
        ReadWriteError: the disk is full or failing; existing checkpoints are not affected.
    """
    with atomic_folder(path) as temporary:
        files = {}
        for name, tensors in checkpoint.tensors.items():
            files[f"{name}.safetensors"] = write_tensors(temporary / f"{name}.safetensors", tensors)
        state = json.dumps(checkpoint.state, indent=2, allow_nan=False).encode()
        (temporary / "state.json").write_bytes(state)
        files["state.json"] = hashlib.sha256(state).hexdigest()
        content = {"format": FORMAT, "mtkit": __version__, "files": files}
        manifest = {**content, "sha256": _hash(content)}
        (temporary / "manifest.json").write_text(json.dumps(manifest, indent=2), encoding="utf-8")


def _hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def verify_checkpoint(path: Path) -> list[str]:
    """Compare every byte of a checkpoint with its manifest; return the names of its files.

    Raises:
        DamagedError: files are missing or differ; the message lists all of them.
        FormatError: another version of mtkit wrote it in a format that this one does not read.
    """
    manifest = path / "manifest.json"
    if not manifest.is_file():
        raise DamagedError(f"{path}: damaged: manifest.json is missing")
    text = read_file(manifest)
    try:
        content = parse_json(text)
        expected = content.pop("sha256")
        is_intact = expected == _hash(content)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        is_intact = False
    if not is_intact:
        raise DamagedError(f"{path}: damaged: manifest.json does not match its checksum")
    if content["format"] != FORMAT:
        reason = f"in checkpoint format {content['format']}, but mtkit {__version__} reads format {FORMAT}"
        raise FormatError(path, content["mtkit"], reason, "train it again (--fresh, or another --run-dir)")
    errors = []
    for name, digest in content["files"].items():
        if not (path / name).is_file():
            errors.append(f"{name} is missing")
        elif hash_file(path / name) != digest:
            errors.append(f"{name} does not match its checksum")
    if errors:
        raise DamagedError(f"{path}: damaged: {'; '.join(errors)}")
    return list(content["files"])


def read_checkpoint(path: Path) -> Checkpoint:
    """Verify and read a checkpoint.

    Raises:
        DamagedError, FormatError: as `verify_checkpoint`.
    """
    names = [name for name in verify_checkpoint(path) if name.endswith(".safetensors")]
    tensors = {name.removesuffix(".safetensors"): read_tensors(path / name) for name in names}
    return Checkpoint(tensors=tensors, state=read_state(path))


def read_state(path: Path) -> dict[str, Any]:
    """Read the JSON state of a verified checkpoint."""
    return dict(parse_json((path / "state.json").read_bytes()))


def latest_valid(folder: Path) -> tuple[Checkpoint | None, dict[Path, str]]:
    """Read the newest intact checkpoint; damaged newer ones are moved to `damaged-...`.

    Returns:
        The checkpoint, or None if there are no checkpoints at all; and the error of each damaged one, by its new path.

    Raises:
        DamagedError: all checkpoints are damaged; none is moved.
        FormatError: the newest checkpoint has another format.
    """
    checkpoint: Checkpoint | None = None
    errors: dict[Path, str] = {}
    for path in reversed(list_checkpoints(folder).values()):
        try:
            checkpoint = read_checkpoint(path)
            break
        except DamagedError as error:
            errors[path] = str(error)
    if checkpoint is None and errors:
        reasons = "\n".join([*errors.values()][:8])
        raise DamagedError(f"{reasons}\nthere is no intact checkpoint to resume from; restore one from a copy")
    damaged = {}
    for path, reason in errors.items():
        quarantine = path.with_name(QUARANTINE_PREFIX + path.name)
        with translate_write_errors(quarantine):
            shutil.rmtree(quarantine, ignore_errors=True)
            path.rename(quarantine)
        damaged[quarantine] = reason
    return checkpoint, damaged


def clean_up(folder: Path) -> None:
    """Complete or undo the writes and removals that a killed process left unfinished; requires the run's lock.

    Raises:
        ReadWriteError: the folder cannot be changed.
    """
    clean_up_folder(folder)
    with translate_write_errors(folder):
        for path in folder.glob(f".{PREFIX}*.gone"):
            shutil.rmtree(path)


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint.

    Raises:
        ReadWriteError: it cannot be removed.
    """
    gone = path.with_name(f".{path.name}.gone")  # killed in between, this must not leave a damaged checkpoint behind
    with translate_write_errors(path):
        path.rename(gone)
        shutil.rmtree(gone)


@dataclass(frozen=True)
class CheckpointInfo:
    """One checkpoint.

    Attributes:
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
    errors: dict[int, str] = {}
    best: list[int] | None = None  # updates of the best validations, as the newest intact checkpoint lists them
    for update, path in reversed(paths.items()):
        try:
            verify_checkpoint(path)
            if best is None:
                best = [scored["update"] for scored in read_state(path)["progress"]["best_updates"]["ranked"]]
        except (DamagedError, MissingInputError) as error:
            errors[update] = str(error).removeprefix(f"{path}: ")
        except FileNotFoundError:
            continue  # a running training has removed it meanwhile
    ranks = {update: rank for rank, update in enumerate(best or [], start=1)}
    listed = [
        CheckpointInfo(path, update, _size(path), errors.get(update), ranks.get(update))
        for update, path in paths.items()
        if path.exists()
    ]
    return listed + [CheckpointInfo(path, None, _size(path), "damaged, in quarantine") for path in quarantined]


def _size(path: Path) -> int:
    size = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(FileNotFoundError):
                size += Path(folder, name).lstat().st_size
    return size


class CheckpointWriter:
    """One background thread that writes one checkpoint at a time.

    The error of a failed write is raised by the next call of `check`, `submit` or `wait`.

    Args:
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
        """Start writing a checkpoint, whose tensors nothing may modify, after waiting for the previous one.

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
