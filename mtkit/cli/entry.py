"""The door of the program: streams, signals, and what becomes an exit code.

The CLI library only reads the options. Its own handling of interrupts, closed pipes and errors is passed by, since it
would end some commands with codes that scripts do not expect.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import textwrap
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn

import typer

from mtkit.cli import memory
from mtkit.cli.app import app
from mtkit.cli.usage import UsageFault, explain
from mtkit.errors import Interrupted, MtkitError, ReaderGoneError, ReadWriteError, TrainingError, UsageError

MOST_LINES = 12  # of an error message

# what a user, the machine or another program can cause; a RuntimeError only if it says that memory is used up, and all
# else is a fault of mtkit
EXPECTED = (MtkitError, UsageFault, KeyboardInterrupt, OSError, MemoryError, RuntimeError)


def main() -> NoReturn:
    """Run the command that `sys.argv` states and end the process with its exit code.

    That is 1 only after a fault of mtkit itself, for which `execute` has no code and which it lets through.
    """
    if not _take_debug(sys.argv[1:])[1]:
        sys.excepthook = tell_own_fault
    sys.exit(execute(sys.argv[1:]))


def execute(words: Sequence[str]) -> int:
    """Run one command line.

    Args:
        words: the command line without the program's name.

    Returns:
        The exit code: 0, that of the `MtkitError`, 130 or 143 after a signal, 141 if nobody reads our output.
    """
    words, debug = _take_debug(words)
    _prepare_streams()
    signal.signal(signal.SIGTERM, _end_on_signal)
    try:
        return _invoke(words)
    except (BrokenPipeError, ReaderGoneError):
        _drop_stdout()
        return ReaderGoneError.exit_code
    except EXPECTED as fault:
        if isinstance(fault, RuntimeError) and not memory.is_used_up(fault):
            raise
        if debug:
            traceback.print_exc()
        error = _as_ours(fault, words)
    _flush_or_drop_stdout()
    print(_clip(f"mtkit: error: {error}"), file=sys.stderr)
    return error.exit_code


def tell_own_fault(kind: type[BaseException], fault: BaseException, trace: TracebackType | None) -> None:
    """What is shown of an exception that nothing expected, in place of its traceback."""
    frames = [frame for frame in traceback.extract_tb(trace) if "mtkit" in Path(frame.filename).parts]
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    said = textwrap.shorten(str(fault), 300) or "no reason given"
    sentence = f"this is a fault of mtkit, not of yours: {kind.__name__}: {said}{place}"
    print(f"mtkit: error: {sentence}\nreport it with what the same command says with --debug", file=sys.stderr)


def _as_ours(fault: BaseException, words: Sequence[str]) -> MtkitError:
    match fault:
        case MtkitError():
            return fault
        case UsageFault():
            return UsageError(explain(fault))
        case KeyboardInterrupt():
            return Interrupted(signal.SIGINT, "interrupted")
        case OSError():
            return ReadWriteError(_what_the_system_said(fault))
    return TrainingError(memory.explain(fault, words[0] if words else ""))


def _take_debug(words: Sequence[str]) -> tuple[list[str], bool]:
    end = words.index("--") if "--" in words else len(words)
    options = [word for word in words[:end] if word != "--debug"]
    return [*options, *words[end:]], len(options) < end


def _prepare_streams() -> None:
    """Text is UTF-8 with `\\n` whatever the locale says; a name that is not UTF-8 can still be printed in an error."""
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")


def _open_closed_streams() -> None:
    """A stream that our caller has closed becomes one that refuses to give or take data; messages go nowhere.

    Its number must not be left to the next file that is opened, into which others would then write.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(_occupy(0, os.O_WRONLY), "r")
    if sys.stdout is None:
        sys.stdout = os.fdopen(_occupy(1, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(_occupy(2, os.O_WRONLY), "w")


def _occupy(number: int, mode: int) -> int:
    """Make a closed descriptor one of /dev/null."""
    nothing = os.open(os.devnull, mode)
    if nothing != number:
        os.dup2(nothing, number)
        os.close(nothing)
    return number


def _end_on_signal(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number, "terminated by a signal")


def _invoke(words: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        with command.make_context("mtkit", words) as context:
            command.invoke(context)
    except typer.Exit as end:
        sys.stdout.flush()
        return end.exit_code
    sys.stdout.flush()
    return 0


def _flush_or_drop_stdout() -> None:
    """What was done before an error reaches the reader; if it cannot, the first error is the one to report."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_stdout()


def _drop_stdout() -> None:
    """Point stdout at nothing, so that Python's own flush at the end has nothing to complain of."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def _what_the_system_said(fault: OSError) -> str:
    reason = (fault.strerror or str(fault)).lower()
    return f"{fault.filename}: {reason}" if fault.filename is not None else f"reading or writing failed: {reason}"


def _clip(message: str) -> str:
    lines = message.split("\n")
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], f"... and {len(lines) - MOST_LINES + 1} more lines"]
    return "\n".join(lines)
