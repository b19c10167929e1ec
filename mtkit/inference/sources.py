"""Hashes of the sources that the native library is compiled from, and of those whose results it must give.

The build compiles both into the library; the loader compares them with the sources beside it. `hatch_build.py` runs
this file where no dependency of mtkit is installed, so that it imports the standard library only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

HASH_DIGITS = 16
PACKAGE = Path(__file__).resolve().parents[1]
C_SOURCES = PACKAGE / "inference" / "c"
LIBRARIES = C_SOURCES.with_name("compiled")  # SET.HASH.so for each instruction set, with the hash of its bytes


def hash_of_c() -> str:
    """Hash of the C sources and headers."""
    return _hash_of_files(C_SOURCES, C_SOURCES.glob("*.[ch]"))


def hash_of_layers() -> str:
    """Hash of the Python sources of Transformers and their layers as written."""
    folders = (PACKAGE / "layers", PACKAGE / "models" / "transformer")
    paths = (path for folder in folders for path in folder.rglob("*.py"))
    return _hash_of_files(PACKAGE, (path for path in paths if path.parent.name != "recurrent"))


def hash_of_searches() -> str:
    """Hash of the Python sources of searches as written."""
    return _hash_of_files(PACKAGE, (PACKAGE / "search").rglob("*.py"))


def hash_of(data: bytes) -> str:
    """The first digits of the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()[:HASH_DIGITS]


def _hash_of_files(root: Path, paths: Iterable[Path]) -> str:
    names = {path.relative_to(root).as_posix(): path for path in paths}
    return hash_of("\n".join(f"{name} {hash_of(names[name].read_bytes())}" for name in sorted(names)).encode())
