"""Loading of the native library, which comes compiled with the package for several instruction sets.

A library is loaded from the package's own folder only, if its bytes have the hash in its name and it was compiled from
the C sources beside it. `hatch_build.py` compiles them when a wheel is made. The best library for the processor is
used, or that of MTKIT_NATIVE. Without one, torch computes.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from mtkit.inference.sources import LIBRARIES, PACKAGE, hash_of, hash_of_c, hash_of_layers, hash_of_searches
from mtkit.inference.structures import declare

VARIABLE = "MTKIT_NATIVE"  # 0: never; the name of an instruction set, such as avx2: that one; 1 or nothing: the best
BASELINE = "baseline"  # the instruction set of every processor of the architecture
MAX_NAMES = 200  # bytes of the names of all instruction sets


@dataclass(frozen=True)
class Native:
    """The native library of this process.

    Attributes:
        functions: the loaded library; None: there is none.
        reason: why there is none and what to do, or the instruction set of the library and those of the processor.
    """

    functions: ctypes.CDLL | None
    reason: str

    @property
    def shortcoming(self) -> str | None:
        """Reason for which translation is slower than it could be; None: it is not, or MTKIT_NATIVE=0 turned it off."""
        if self.functions is None:
            return None if os.environ.get(VARIABLE) == "0" else self.reason
        edited = "the searches of this checkout were edited and run as written; run `python hatch_build.py`"
        return None if self.matches_searches else edited

    @cached_property
    def matches_layers(self) -> bool:
        """True if the layers as written are those that the library was compiled beside."""
        return self.functions is not None and self.functions.mtkit_layers_hash() == hash_of_layers().encode()

    @cached_property
    def matches_searches(self) -> bool:
        """True if the searches as written are those that the library was compiled beside."""
        return self.functions is not None and self.functions.mtkit_searches_hash() == hash_of_searches().encode()


@cache
def native() -> Native:
    """Return the library; only the first call of a process loads it."""
    if os.environ.get(VARIABLE) == "0":
        return Native(None, f"turned off by {VARIABLE}=0")
    try:
        available, chosen = instruction_sets(), chosen_instruction_set()
        names = available if chosen is None else [chosen]
        if not set(names) <= set(available):
            return Native(None, f"{VARIABLE}={chosen}: this processor has {' '.join(available)}")
        name = next((name for name in names if _find(name)), names[0])
        return Native(declare(_load(name)), f"{name}, of {' '.join(available)}")
    except (OSError, AttributeError, ValueError) as error:  # of the file or the system's loader; it lacks a function
        return Native(None, f"{error}; {_remedy()}")


def chosen_instruction_set() -> str | None:
    """Return the instruction set that MTKIT_NATIVE names; None if it leaves the choice or turns the library off."""
    choice = os.environ.get(VARIABLE, "")
    return None if choice in ("", "0", "1") else choice


def instruction_sets() -> list[str]:
    """Return the instruction sets of this processor, the fastest first."""
    names = ctypes.create_string_buffer(MAX_NAMES)
    _load(BASELINE).mtkit_instruction_sets(0, names, MAX_NAMES)
    return names.value.decode().split()


def _find(name: str) -> list[Path]:
    return sorted(LIBRARIES.glob(f"{name}.*.so"))


def _load(name: str) -> ctypes.CDLL:
    """Load the intact library of an instruction set.

    Raises:
        ValueError: there is none, it is damaged, or other sources were compiled.
        OSError: the system cannot load it.
    """
    if not _find(name):
        raise ValueError(f"no library for {name} in {LIBRARIES}")
    path = _find(name)[-1]
    if path.name != f"{name}.{hash_of(path.read_bytes())}.so":
        raise ValueError(f"{path} is damaged")
    library = ctypes.CDLL(str(path))
    for name in ("c", "layers", "searches"):
        getattr(library, f"mtkit_{name}_hash").restype = ctypes.c_char_p
    if library.mtkit_c_hash() != hash_of_c().encode():
        raise ValueError(f"{path} was compiled from other C sources")
    return library


def _remedy() -> str:
    """The command that makes the library: in a checkout, or in an environment."""
    if (PACKAGE.parent / "hatch_build.py").is_file():
        return "run `python hatch_build.py` in the checkout"
    return "install mtkit again"
