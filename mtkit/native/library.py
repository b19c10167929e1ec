"""The native library: its loading, and work in it on several threads, since its functions release Python's lock.

It comes compiled with the package for several instruction sets. A library is loaded from the package's folder only, if
its bytes have the hash in its name and it was compiled from the C sources beside it. `hatch_build.py` compiles them
when a wheel is made. The best library for the processor is used, or that of MTKIT_NATIVE. Without one, torch computes.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

from mtkit.native.sources import (
    LIBRARIES,
    PACKAGE,
    Field,
    hash_of,
    hash_of_c,
    hash_of_layers,
    hash_of_searches,
    read_constants,
    read_functions,
    read_structures,
)

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
        """True if the layers are those that the library was compiled beside."""
        return self.functions is not None and self.functions.mtkit_layers_hash() == hash_of_layers().encode()

    @cached_property
    def matches_searches(self) -> bool:
        """True if the reference searches are those that the library was compiled beside."""
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
        is_checkout = (PACKAGE.parent / "hatch_build.py").is_file()
        remedy = "run `python hatch_build.py` in the checkout" if is_checkout else "install mtkit again"
        return Native(None, f"{error}; {remedy}")


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
        getattr(library, f"mtkit_{name}_hash").restype = c_char_p
    if library.mtkit_c_hash() != hash_of_c().encode():
        raise ValueError(f"{path} was compiled from other C sources")
    return library


CONSTANTS: Mapping[str, int] = read_constants()
_NUMBERS: dict[str, Any] = {"int32_t": c_int32, "int64_t": c_int64, "float": c_float, "double": c_double}
_TYPES = {**_NUMBERS, "int": c_int, "void": None}  # of arguments and results


def define(structures: Mapping[str, list[Field]]) -> dict[str, type[ctypes.Structure]]:
    """The classes of structures, each of which may contain and point to those before it."""
    defined: dict[str, type[ctypes.Structure]] = {}
    for name, fields in structures.items():
        layout: list[tuple[str, Any]] = []
        for field in fields:
            known: Any = defined.get(field.type)
            if field.is_pointer:
                layout.append((field.name, POINTER(known) if known else c_void_p))
            else:
                layout.append((field.name, known or _NUMBERS[field.type]))
        defined[name] = type(name, (ctypes.Structure,), {"_fields_": layout})
    return defined


def field_names(structure: type[ctypes.Structure]) -> list[str]:
    """The names of the fields of a structure, in their order."""
    return [each[0] for each in structure._fields_]


STRUCTURES = define(read_structures())
Linear, Pruned, Norm, Layer, StackStructure, Constraints, SamplingSettings, Task, *_TRAINING = STRUCTURES.values()
Matrix, MatrixProduct, Threads, SoftmaxRows, HeadsStructure, TrainedAttention, Dropped, AdditiveScores = _TRAINING

_RESULTS: dict[str, Any] = {"char": c_char_p, "int32_t": POINTER(c_int32)}  # of pointers that Python reads


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """State the types of arguments and results of all functions, and compare the layout of the structures.

    Raises:
        AttributeError: the library lacks a function.
        ValueError: a field of a structure has another place or size.
    """
    for result, arguments in read_functions().items():
        function = getattr(library, result.name)
        function.argtypes = [c_void_p if each.is_pointer else _TYPES[each.type] for each in arguments]
        function.restype = _RESULTS.get(result.type, c_void_p) if result.is_pointer else _TYPES[result.type]
    layout, index = library.mtkit_layout(), 0
    for name, fields in read_structures().items():
        for each in fields:
            field: Any = getattr(STRUCTURES[name], each.name)
            if (layout[index], layout[index + 1]) != (field.offset, field.size):
                raise ValueError(f"{name}.{each.name} has another place or size in the native library")
            index += 2
        if layout[index] != ctypes.sizeof(STRUCTURES[name]):
            raise ValueError(f"{name} has another size in the native library")
        index += 1
    return library


MIN_ROWS = 8  # of a thread: fewer take less time than another thread needs to begin


def run_in_chunks(work: Callable[[int, int], object], count: int, threads: int) -> None:
    """Call `work(first, number)` for chunks of `count` rows, side by side.

    Returns or raises only after all chunks have ended: they write to memory of the caller.
    """
    chunks = min(threads, max(1, count // MIN_ROWS))
    bounds = pairwise(count * i // chunks for i in range(chunks + 1))
    run_together([partial(work, first, last - first) for first, last in bounds])


def run_together(tasks: Sequence[Callable[[], object]], stop: Callable[[], None] = lambda: None) -> None:
    """Run tasks side by side, the first one on the calling thread; returns or raises only after all have ended.

    Args:
        tasks: what to run.
        stop: asks the tasks to end soon; called after an error or an interruption on the calling thread.
    """
    futures: list[Future[None]] = []
    begin = Event()

    def run(task: Callable[[], object]) -> None:
        begin.wait()
        if len(futures) == len(tasks) - 1:  # less after an interruption: the caller has not waited
            task()

    try:
        try:
            for task in tasks[1:]:
                futures.append(_pool(os.getpid(), len(tasks)).submit(run, task))
        finally:
            begin.set()
        tasks[0]()
    except BaseException:
        stop()
        raise
    finally:
        _wait_for_all(futures, stop)
    for future in futures:
        future.result()


def _wait_for_all(futures: Sequence[Future[None]], stop: Callable[[], None]) -> None:
    """Wait for the end of all, also after an interruption, which is raised then."""
    interruption: BaseException | None = None
    while not all(future.done() for future in futures):
        try:
            wait(futures, timeout=0.2)  # a signal that another thread received is handled after it
        except BaseException as error:  # of a signal; the tasks still write to memory of the caller
            interruption = error
            stop()
    if interruption is not None:
        raise interruption


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of one process: a copy of a process has none."""
    return ThreadPoolExecutor(threads, thread_name_prefix="mtkit-native")
