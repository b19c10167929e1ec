"""Exceptions into exit codes and error messages.

| exit code | meaning | exit code | meaning |
|---|---|---|---|
| 0 | success | 70 | training failed, or out of memory |
| 1 | a bug in mtkit; `--debug` shows the traceback | 74 | read or write error |
| 2 | wrong usage | 75 | run folder or output locked by another process |
| 65 | invalid data | 78 | invalid or changed recipe |
| 66 | input not found | 129, 130, 138, 143 | interrupted (SIGHUP, SIGINT, SIGUSR1, SIGTERM); the state is saved |
| 69 | optional dependency not installed | 141 | output pipe closed (SIGPIPE) |

Each code except 0, 1 and those of signals is the `exit_code` of a class in `mtkit.errors`.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import textwrap
import traceback
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType

from mtkit.cli.usage import ClickUsageError, explain_usage_error
from mtkit.errors import (
    ComputeError,
    Interrupted,
    MissingInputError,
    MtkitError,
    ReadWriteError,
    UsageError,
    describe_oom,
    is_oom,
)
from mtkit.io.files import MAX_QUOTED
from mtkit.signals import SignalReceived, describe

MAX_MESSAGE_LINES = 12

_TRAINING_HINT = (
    "reduce training.batch_tokens (raise training.micro_batches by the same factor to keep the size of an update) or "
    "the model; --dry-run estimates the memory that a recipe needs"
)
_TRANSLATION_HINT = "reduce --batch-tokens"
# options of a command that reduce its use of memory
_MEMORY_HINTS = {
    "run": _TRAINING_HINT,
    "train": _TRAINING_HINT,
    "translate": f"{_TRANSLATION_HINT}, --beam-size or --workers",
    "score": _TRANSLATION_HINT,
    "describe": "reduce --length or the model",
    "bench": f"{_TRANSLATION_HINT} or --beam-size",
}

# caused by the user, the machine or another program; any other exception is a bug in mtkit (see is_bug)
EXPECTED_ERRORS = (
    *(MtkitError, ClickUsageError, KeyboardInterrupt, OSError, MemoryError),
    *(RuntimeError, ImportError, ValueError),
)
LOG_SETTINGS = "TORCH_LOGS"  # environment variable that torch reads while it is imported


def is_bug(error: BaseException) -> bool:
    """Return whether one of EXPECTED_ERRORS is a bug in mtkit after all: neither memory nor TORCH_LOGS caused it."""
    if isinstance(error, ValueError):
        return not _is_of_log_settings(error)
    return isinstance(error, RuntimeError | ImportError) and not is_oom(error)


def _is_of_log_settings(error: ValueError) -> bool:
    return LOG_SETTINGS in os.environ and "Invalid log settings" in str(error)


def to_mtkit_error(error: BaseException, words: Sequence[str]) -> MtkitError:
    """Convert an expected error into the `MtkitError` with its exit code and message."""
    command = words[0] if words else ""
    match error:
        case MtkitError():
            return error
        case ClickUsageError():
            return UsageError(explain_usage_error(error, command))
        case SignalReceived(number=number):
            return Interrupted(number, str(error))
        case KeyboardInterrupt():
            return Interrupted(signal.SIGINT, describe(signal.SIGINT))
        case OSError(errno=errno.ENAMETOOLONG) if _is_argument(error.filename, words):
            return MissingInputError(f"{error.filename[:MAX_QUOTED]}...: no such file: the name is too long")
        case OSError() if not is_oom(error):
            reason = (error.strerror or str(error)).lower()
            place = "reading or writing failed" if error.filename is None else error.filename
            return ReadWriteError(f"{place}: {reason}")
        case ValueError():
            value = os.environ[LOG_SETTINGS][:MAX_QUOTED]
            return UsageError(f"the environment variable {LOG_SETTINGS}={value} is no setting of torch; unset it")
    return ComputeError(explain_oom(error, command))


def _is_argument(path: object, words: Sequence[str]) -> bool:
    """Return whether a path begins with an argument, which is an input; outputs are values of options."""
    arguments = [word for before, word in pairwise(words) if word and not before.startswith("-")]
    return isinstance(path, str) and path.startswith((*arguments, *(str(Path(word).absolute()) for word in arguments)))


def print_error(error: MtkitError) -> None:
    """Print the message to stderr, shortened to `MAX_MESSAGE_LINES` lines."""
    lines = f"mtkit: error: {error}".split("\n")
    if len(lines) > MAX_MESSAGE_LINES:
        lines = [*lines[: MAX_MESSAGE_LINES - 1], f"... and {len(lines) - MAX_MESSAGE_LINES + 1} more lines"]
    with suppress(OSError):  # stderr on a full disk; the exit code remains
        print("\n".join(lines), file=sys.stderr, flush=True)


def report_internal_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Exception hook for bugs in mtkit: print one sentence instead of the traceback."""
    frames = [frame for frame in traceback.extract_tb(trace) if "mtkit" in Path(frame.filename).parts]
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    reason = textwrap.shorten(str(error), 300) or "no message"
    print(f"mtkit: error: internal error (a bug in mtkit): {kind.__name__}: {reason}{place}", file=sys.stderr)
    print("run the same command with --debug and report its output", file=sys.stderr)


def explain_oom(error: BaseException, command: str) -> str:
    """The message for an out-of-memory error: how much was requested, if known, and what helps in this command."""
    hint = _MEMORY_HINTS.get(command, "end other programs, or use a machine with more memory")
    return f"{describe_oom(error)}; {hint}"
