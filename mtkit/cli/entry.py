"""Entry point of the program: run one command line and return its exit code.

Typer only parses the options. Its own handling of interrupts, closed pipes and errors is bypassed, because it would
end some commands with undocumented exit codes.
"""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import typer

from mtkit.cli.app import app
from mtkit.cli.exit_codes import EXPECTED_ERRORS, is_bug, print_error, report_internal_error, to_mtkit_error
from mtkit.cli.streams import discard_stdout, flush_stdout, prepare_streams
from mtkit.errors import Interrupted, OutputClosedError


def main() -> NoReturn:
    """Run the command line in `sys.argv` and end the process with its exit code.

    `execute` lets bugs in mtkit through; Python then ends with exit code 1.
    """
    if not _remove_debug_option(sys.argv[1:])[1]:
        sys.excepthook = report_internal_error
    sys.exit(execute(sys.argv[1:]))


def execute(words: Sequence[str]) -> int:
    """Run one command line.

    Args:
        words: the command line without the program's name.

    Returns:
        The exit code (see exit_codes).
    """
    words, debug = _remove_debug_option(words)
    prepare_streams()
    signal.signal(signal.SIGTERM, _raise_interrupted)
    try:
        return _invoke(words)
    except (BrokenPipeError, OutputClosedError):
        discard_stdout()
        return OutputClosedError.exit_code
    except EXPECTED_ERRORS as error:
        if is_bug(error):
            raise
        if debug:
            traceback.print_exc()
        known = to_mtkit_error(error, words[0] if words else "")
    flush_stdout()
    print_error(known)
    return known.exit_code


def _remove_debug_option(words: Sequence[str]) -> tuple[list[str], bool]:
    """The command line without --debug, which may stand anywhere before `--`, and whether it was there."""
    end = words.index("--") if "--" in words else len(words)
    options = [word for word in words[:end] if word != "--debug"]
    return [*options, *words[end:]], len(options) < end


def _raise_interrupted(number: int, frame: FrameType | None) -> None:
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
