"""Checkpoints: folders `update-00001000/` of safetensors and JSON that are there as a whole or not at all.

manifest.json holds the SHA-256 of every other file and one of itself, so that no damage is ever loaded silently.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from mtkit import __version__
from mtkit.errors import DamagedError, DataError
from mtkit.io.files import build_folder, hash_file, reading, recover_folder, writing
from mtkit.training.checkpoints.tensor_file import read_tensors, write_tensors

FORMAT = 1  # raised when what is written can no longer be read by older versions


PREFIX = "update-"


DAMAGED = "damaged-"


@dataclass(frozen=True)
class Checkpoint:
    """What a training needs to go on.

    Attributes:
        tensors: by file (model, optimiser, average ...) and name.
        state: everything else, as JSON.
    """

    tensors: Mapping[str, Mapping[str, Tensor]]
    state: Mapping[str, Any]


@dataclass(frozen=True)
class Damage:
    """A checkpoint that could not be used, where it was put, and why."""

    path: Path
    reason: str


def checkpoint_path(folder: Path, update: int) -> Path:
    """The place of the checkpoint of an update among the others in `folder`."""
    return folder / f"{PREFIX}{update:08d}"


def list_checkpoints(folder: Path) -> dict[int, Path]:
    """The checkpoints in `folder` by update, oldest first; good or not is not looked at."""
    names = [p for p in folder.iterdir() if p.name.startswith(PREFIX)] if folder.is_dir() else []
    found = {int(p.name.removeprefix(PREFIX)): p for p in names if p.name.removeprefix(PREFIX).isdecimal()}
    return dict(sorted(found.items()))


def write_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint durably; tensors must be on the CPU and not change meanwhile.

    Raises:
        ReadWriteError: the disk is full or failing; what was there before is unharmed.
    """
    with build_folder(path) as temporary:
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
    """Compare every byte of a checkpoint with its manifest; gives the names of its files.

    Raises:
        DamagedError: a file is missing or differs; all of them are named.
        DataError: a newer version of mtkit wrote it.
    """
    manifest = path / "manifest.json"
    if not manifest.is_file():
        raise DamagedError(f"{path}: damaged: manifest.json is missing")
    with reading(manifest):
        text = manifest.read_bytes()
    try:
        content = json.loads(text)
        stated = content.pop("sha256")
        is_whole = stated == _hash(content)
    except (ValueError, KeyError, AttributeError, TypeError):
        is_whole = False
    if not is_whole:
        raise DamagedError(f"{path}: damaged: manifest.json is not as it was written")
    if content["format"] > FORMAT:
        raise DataError(
            f"{path}: has format {content['format']}, and mtkit {__version__} reads up to {FORMAT}; it was written by "
            f"mtkit {content['mtkit']}, which or a later one reads it; or train with --fresh"
        )
    faults = [fault for name, digest in content["files"].items() if (fault := _fault(path / name, digest))]
    if faults:
        raise DamagedError(f"{path}: damaged: {'; '.join(faults)}")
    return list(content["files"])


def _fault(file: Path, digest: str) -> str | None:
    if not file.is_file():
        return f"{file.name} is missing"
    return None if hash_file(file) == digest else f"{file.name} is not as it was written"


def read_checkpoint(path: Path) -> Checkpoint:
    """Verify and read a checkpoint.

    Raises:
        DamagedError, DataError: as `verify_checkpoint`.
    """
    names = [name for name in verify_checkpoint(path) if name.endswith(".safetensors")]
    tensors = {name.removesuffix(".safetensors"): read_tensors(path / name) for name in names}
    return Checkpoint(tensors=tensors, state=read_state(path))


def read_state(path: Path) -> dict[str, Any]:
    """The numbers of a checkpoint that was verified."""
    return dict(json.loads((path / "state.json").read_bytes()))


def newest_good(folder: Path) -> tuple[Checkpoint | None, list[Damage]]:
    """Read the newest checkpoint that is whole; damaged ones on the way are moved to `damaged-...` and reported.

    None if there has never been one.

    Raises:
        DamagedError: there are checkpoints and all are damaged (none is moved then).
        DataError: the newest is of a newer format.
    """
    damages = []
    for _, path in reversed(list_checkpoints(folder).items()):
        try:
            checkpoint = read_checkpoint(path)
        except DamagedError as error:
            damages.append(Damage(path, str(error)))
            continue
        return checkpoint, [_set_aside(damage) for damage in damages]
    if damages:
        reasons = "\n".join(damage.reason for damage in damages[:8])
        raise DamagedError(f"{reasons}\nno checkpoint is left to go on from; begin again with --fresh")
    return None, []


def _set_aside(damage: Damage) -> Damage:
    aside = damage.path.with_name(DAMAGED + damage.path.name)
    with writing(aside):
        shutil.rmtree(aside, ignore_errors=True)
        damage.path.rename(aside)
    return Damage(aside, damage.reason)


def clear_leftovers(folder: Path) -> None:
    """Finish what a killed process began in `folder`; only for who holds the run's lock.

    Raises:
        ReadWriteError: it cannot be changed.
    """
    with writing(folder):
        for path in list(folder.glob(f".{PREFIX}*.old")):
            recover_folder(path.with_name(path.name[1:].removesuffix(".old")))
        for path in [*folder.glob(f".{PREFIX}*.tmp"), *folder.glob(f".{PREFIX}*.gone")]:
            shutil.rmtree(path)


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint; cut off in between, it does not look like a damaged one.

    Raises:
        ReadWriteError: it cannot be removed.
    """
    gone = path.with_name(f".{path.name}.gone")
    with writing(path):
        path.rename(gone)
        shutil.rmtree(gone)
