"""Compilation and loading of the native library.

The library is compiled for the very processor (`-march=native`), so that it is never part of a package. Its name in
the cache contains a hash of all that it depends on, and one of its own bytes: a damaged file is compiled again.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from mtkit.hardware import cpu_flags
from mtkit.inference.native.structures import declare

VARIABLE = "MTKIT_NATIVE"  # 0: never; anything else, or nothing: if it can be compiled
SOURCES = Path(__file__).parent.parent / "c"
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-std=gnu11", "-shared", "-fPIC", "-fno-math-errno", "-fno-trapping-math")
SECONDS = 120  # that a compilation may take
HASH_DIGITS = 16
TYPES: dict[torch.dtype, int] = {torch.float32: 0, torch.bfloat16: 1, torch.int8: 2}  # as in c/products.h


@dataclass(frozen=True)
class Native:
    """The native library of this process.

    Attributes:
        functions: the loaded library; None: there is none.
        reason: why there is none, or the compiler that made it.
    """

    functions: ctypes.CDLL | None
    reason: str

    def supports(self, dtype: torch.dtype) -> bool:
        """Return whether there is a library, and the processor has the instructions for this type of weights."""
        return self.functions is not None and bool(self.functions.mtkit_has_type(TYPES.get(dtype, -1)))


@cache
def native() -> Native:
    """Return the library; the first call on a machine compiles it, which takes a few seconds."""
    if os.environ.get(VARIABLE) == "0":
        return Native(None, f"turned off by {VARIABLE}=0")
    compiler = os.environ.get("CC") or next((each for each in COMPILERS if shutil.which(each)), None)
    path = shutil.which(compiler) if compiler else None
    if compiler is None or path is None:
        return Native(None, f"no C compiler ({compiler or ', '.join(COMPILERS)})")
    try:
        return Native(declare(ctypes.CDLL(str(_find_or_compile(path)))), f"compiled by {compiler}")
    except subprocess.SubprocessError as error:
        output = (error.stderr if isinstance(error, subprocess.CalledProcessError) else "").strip() or str(error)
        first_line = output.partition("\n")[0]
        return Native(None, f"{compiler} failed: {first_line}")
    except (OSError, AttributeError, RuntimeError, ValueError) as error:  # of cache, library, home folder, CFLAGS
        return Native(None, str(error))


def cache_folder() -> Path:
    """Return the folder of the compiled libraries."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mtkit"


def _find_or_compile(compiler: str) -> Path:
    """Return the intact library of this compiler, processor and source; compile it if there is none.

    Raises:
        OSError: the cache cannot be written.
        subprocess.SubprocessError: the compiler failed.
    """
    folder, prefix = cache_folder(), f"native-{_key(compiler)}-"
    for path in sorted(folder.glob(f"{prefix}*.so")):
        if path.stem.removeprefix(prefix) == _hash(path.read_bytes()):
            return path
        path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = Path(work) / "native.so"
        command = [compiler, *_flags(), "-o", str(made), *map(str, sorted(SOURCES.glob("*.c"))), "-lm"]
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )
        library = folder / f"{prefix}{_hash(made.read_bytes())}.so"
        made.replace(library)
    return library


def _flags() -> list[str]:
    """The options of the compiler, followed by those of the environment's CFLAGS."""
    target = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
    return [*FLAGS, target, *shlex.split(os.environ.get("CFLAGS", ""))]


def _key(compiler: str) -> str:
    """Hash of the sources, the compiler, its options and the processor."""
    file = Path(compiler).resolve()
    parts = [str(file), str(file.stat().st_mtime_ns), sys.platform, platform.machine(), *_flags(), *sorted(cpu_flags())]
    sources = b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))
    return _hash("\n".join(parts).encode() + sources)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:HASH_DIGITS]
