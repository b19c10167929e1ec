"""Sources of the native library: their hashes, and the structures and constants that Python needs of the headers.

The build compiles hashes and layouts into the library; the loader compares them with the sources beside it.
`hatch_build.py` runs this file where no dependency of mtkit is installed, so that it imports the standard library only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

HASH_DIGITS = 16
PACKAGE = Path(__file__).resolve().parents[1]
C_SOURCES = PACKAGE / "native" / "c"
LIBRARIES = C_SOURCES.with_name("compiled")  # SET.HASH.so for each instruction set, with the hash of its bytes


# structures that Python fills or reads, each after those that it contains or points to
SHARED_STRUCTURES = (
    *("Linear", "Pruned", "Norm", "Layer", "Stack", "Constraints", "Sampling", "Task"),
    *("Matrix", "MatrixProduct", "Threads", "SoftmaxRows", "Heads", "TrainedAttention", "Dropped"),
    "AdditiveScores",
)


class Field(NamedTuple):
    """A field of a structure, an argument of a function, or a function with the type of its result."""

    type: str
    is_pointer: bool
    name: str


@cache
def _headers() -> str:
    """The headers without comments."""
    texts = [path.read_text() for path in sorted(C_SOURCES.glob("*.h"))]
    return re.sub(r"/\*.*?\*/", "", "".join(texts), flags=re.DOTALL)


def read_structures() -> dict[str, list[Field]]:
    """The fields of the structures that Python shares with the library, in their order."""
    bodies = {name: body for body, name in re.findall(r"typedef struct \{([^{}]*)\} (\w+);", _headers())}
    structures: dict[str, list[Field]] = {}
    for name in SHARED_STRUCTURES:
        fields = structures.setdefault(name, [])
        for declaration in bodies[name].split(";")[:-1]:
            first, *others = declaration.replace("const ", "").split(",")
            kind, first = first.split(None, 1)
            fields += [Field(kind, "*" in each, each.strip(" *")) for each in (first, *others)]
    return structures


def read_functions() -> dict[Field, list[Field]]:
    """The functions of the library, each with its arguments."""
    texts = [path.read_text() for path in sorted(C_SOURCES.glob("*.c"))]
    found = re.findall(r"^([\w *]+\bmtkit_\w+)\(([^)]*)\) \{", "".join(texts), re.MULTILINE)
    return {
        _declared(function): [] if arguments == "void" else [_declared(each) for each in arguments.split(",")]
        for function, arguments in found
    }


def _declared(text: str) -> Field:
    kind, name = text.replace("const ", "").split(None, 1)
    return Field(kind, "*" in name, name.strip(" *"))


def read_constants() -> dict[str, int]:
    """The constants that enumerations of the headers define as numbers."""
    constants: dict[str, int] = {}
    for body in re.findall(r"enum \{([^{}]*)\}", _headers()):
        following = 0
        for name, _, value in (each.strip().partition(" = ") for each in body.rstrip(" ,\n").split(",")):
            if not re.fullmatch(r"-?\d*", value):
                break  # an expression, which Python does not need
            constants[name] = int(value or following)
            following = constants[name] + 1
    return constants


def layout_macro() -> str:
    """The macro LAYOUT of library.c, from which the compiler computes places and sizes of all shared fields."""
    macros = (
        "".join(f"FIELD({name}, {field.name}) " for field in fields) + f"SIZE({name})"
        for name, fields in read_structures().items()
    )
    return " ".join(macros)


def hash_of_c() -> str:
    """Hash of the C sources and headers."""
    return _hash_of_files(C_SOURCES, C_SOURCES.glob("*.[ch]"))


def hash_of_layers() -> str:
    """Hash of the Python sources of Transformers and their layers, the reference implementation."""
    folders = (PACKAGE / "layers", PACKAGE / "models" / "transformer")
    paths = (path for folder in folders for path in folder.rglob("*.py"))
    return _hash_of_files(PACKAGE, (path for path in paths if path.parent.name != "recurrent"))


def hash_of_searches() -> str:
    """Hash of the Python sources of the reference searches."""
    return _hash_of_files(PACKAGE, (PACKAGE / "search").rglob("*.py"))


def hash_of(data: bytes) -> str:
    """The first digits of the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()[:HASH_DIGITS]


def _hash_of_files(root: Path, paths: Iterable[Path]) -> str:
    names = {path.relative_to(root).as_posix(): path for path in paths}
    return hash_of("\n".join(f"{name} {hash_of(names[name].read_bytes())}" for name in sorted(names)).encode())
