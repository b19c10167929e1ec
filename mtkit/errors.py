"""Errors that a user, the machine or the data can cause: one class per exit code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# torch has an exception class for GPU memory only; its CPU allocator and some kernels raise plain RuntimeErrors, as
# Python does when a thread cannot start; a library that cannot be loaded raises an ImportError or OSError
_OOM_MESSAGE = re.compile(
    r"DefaultCPUAllocator|can't allocate memory|cannot allocate memory|out of memory|not enough memory|std::bad_alloc"
    r"|_ALLOC_FAILED|can't start new thread|failed to map segment",
    re.IGNORECASE,
)
_REQUESTED = re.compile(r"allocate (\d+) bytes|allocate ([\d.]+ [KMGT]iB)")


def is_oom(error: BaseException) -> bool:
    """Return whether torch, numpy or Python reports with this error that CPU or GPU memory ran out."""
    # by name, since torch is not imported here
    is_torch_class = any(cls.__name__ == "OutOfMemoryError" for cls in type(error).__mro__)
    may_be = isinstance(error, RuntimeError | ImportError | OSError)
    return isinstance(error, MemoryError) or is_torch_class or (may_be and bool(_OOM_MESSAGE.search(str(error))))


def describe_oom(error: BaseException) -> str:
    """Such as `out of memory (tried to allocate 4.0 GiB more)`; without the amount if the error does not have it."""
    match = _REQUESTED.search(str(error))
    if match is None:
        return "out of memory"
    amount = match[2] if match[1] is None else f"{int(match[1]) / 2**30:,.1f} GiB"
    return f"out of memory (tried to allocate {amount} more)"


# what the command line, which sets it, knows of a word in a section of a recipe (see option_for_key in mtkit.cli)
option_for: Callable[..., str] = lambda section, word, names=None: ""  # noqa: E731


class MtkitError(Exception):
    """Base class of all errors that a user can cause and fix; the message names the place, the value and the remedy.

    A command prints the message without a traceback and exits with `exit_code`. Any other exception is a bug in mtkit:
    the command reports it as such and exits with 1.
    """

    exit_code = 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all attributes; by default exceptions are rebuilt from `args`, which subclasses do not accept."""
        return Exception.__new__, (type(self), *self.args), vars(self)

    def _render_traceback_(self) -> list[str]:
        """The message alone, as on the command line; IPython looks for this name and shows it without a traceback."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(MtkitError):
    """Wrong arguments or options of a command."""

    exit_code = 2


class DataError(MtkitError):
    """Unusable content of an input file."""

    exit_code = 65


class FormatError(DataError):
    """A folder written by another version of mtkit in a format that this version does not read.

    Args:
        reason: the difference, such as "in model format 1, but mtkit 0.2.0 reads format 2".
        remedy: what to do; "or use" that version is appended.
    """

    def __init__(self, path: Path, written_by: str, reason: str, remedy: str) -> None:
        super().__init__(f"{path}: written by mtkit {written_by} {reason}; {remedy}, or use mtkit {written_by}")


class DamagedError(DataError):
    """A file written by mtkit that was changed or truncated.

    Attributes:
        what: the message without the remedy.
    """

    def __init__(self, what: str, remedy: str | None = None) -> None:
        super().__init__(what if remedy is None else f"{what}; {remedy}")
        self.what = what


class NonFiniteError(DataError):
    """A model that computes NaN or infinity for a line.

    Args:
        line: number of the line, from 1; None: the line is unknown.
    """

    def __init__(self, model: str, line: int | None = None) -> None:
        place = "" if line is None else f" for line {line}"
        super().__init__(
            f"{model}: computes NaN or infinity{place}; its weights are unusable, train the model again or "
            "choose another one"
        )
        self.model = model


class MissingInputError(MtkitError):
    """An input file or folder that does not exist."""

    exit_code = 66


class MissingExtraError(MtkitError):
    """An optional dependency that a command needs and that is not installed.

    Args:
        extra: the extra of mtkit that has it; empty: none.
        instead: what else the user can do; empty: nothing.
    """

    exit_code = 69

    def __init__(self, extra: str, package: str, instead: str = "") -> None:
        other = f"; or {instead}" if instead else ""
        wanted = f"'mtkit[{extra}]'" if extra else package
        super().__init__(f"this needs the package {package}: pip install {wanted}{other}")


@contextmanager
def require_extra(extra: str, package: str, *, instead: str = "") -> Iterator[None]:
    """A block that imports an optional package, or calls what imports it; `instead` as for MissingExtraError.

    Raises:
        MissingExtraError: it is not installed, or cannot be imported beside the packages that are.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(extra, package, instead) from error


class ComputeError(MtkitError):
    """A computation that cannot continue: a non-finite loss in training, or out of memory in any command."""

    exit_code = 70


class ReadWriteError(MtkitError):
    """A read or write that the operating system rejected."""

    exit_code = 74


class BusyError(MtkitError):
    """A run folder or an output that is locked by another process."""

    exit_code = 75


class RecipeError(MtkitError):
    """A recipe or override that is invalid, or that changed since the training was started."""

    exit_code = 78


class Interrupted(MtkitError):
    """A signal that ended the program after its state was saved; the exit code is 128 + the signal number."""

    def __init__(self, signal_number: int, message: str = "interrupted; the state is saved") -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


class OutputClosedError(MtkitError):
    """An output pipe that was closed by its reader."""

    exit_code = 141
