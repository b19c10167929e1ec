"""Entry point of the program: run one command line and return its exit code.

Typer only parses the options. Its own handling of interrupts, closed pipes and errors is bypassed, because it would
end some commands with undocumented exit codes.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import typer

from mtkit import errors, signals
from mtkit.cli.app import build_app
from mtkit.cli.exit_codes import (
    EXPECTED_ERRORS,
    accept_shell_name,
    is_bug,
    print_error,
    report_internal_error,
    to_mtkit_error,
)
from mtkit.cli.printing import discard_stdout, prepare_streams, print_notes
from mtkit.errors import MissingInputError, OutputClosedError
from mtkit.hardware import limit_threads

COMPLETION_VARIABLE = "_MTKIT_COMPLETE"  # set by the shell when it asks for completions


def main() -> NoReturn:
    """Run the command line in `sys.argv` and end the process with its exit code.

    `execute` lets bugs in mtkit through; the exit code is then 1.
    """
    limit_threads()
    if not _remove_debug_option(sys.argv[1:])[1]:
        sys.excepthook = report_internal_error
    exit_code = 1
    atexit.register(lambda: _end_process(exit_code))  # registered first, thus called last
    try:
        exit_code = execute(sys.argv[1:])
    finally:
        signals.finish_at_once(exit_code)
    sys.exit(exit_code)


def _end_process(exit_code: int) -> NoReturn:
    """End without the destructors of C++ libraries, during which Python no longer handles signals."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(exit_code)


def execute(words: Sequence[str]) -> int:
    """Run one command line.

    Args:
        words: the command line without the program's name.

    Returns:
        The exit code (see exit_codes).
    """
    words, debug = _remove_debug_option(words)
    prepare_streams()
    try:
        os.getcwd()
    except FileNotFoundError:  # the libraries of torch end the process with another code
        missing = MissingInputError("the current folder no longer exists; change to another one")
        print_error(missing)
        return missing.exit_code
    with signals.RaisedSignals() as raised:
        try:
            with raised.prevail():
                return _invoke(words)
        except (BrokenPipeError, OutputClosedError):
            discard_stdout()
            return OutputClosedError.exit_code
        except EXPECTED_ERRORS as error:
            if is_bug(error):
                raise
            if debug:
                traceback.print_exc()
            known = to_mtkit_error(error, words)
            notes: list[str] = vars(error).get("__notes__", [])
        try:
            sys.stdout.flush()
        except OSError:  # only the first error is reported
            discard_stdout()
        print_error(known)
        print_notes(notes)
        return known.exit_code


def _remove_debug_option(words: Sequence[str]) -> tuple[list[str], bool]:
    """The command line without --debug, which may stand anywhere before `--`, and whether it was there."""
    end = words.index("--") if "--" in words else len(words)
    options = [word for word in words[:end] if word != "--debug"]
    return [*options, *words[end:]], len(options) < end


def _option_for(section: str, word: str, names: bool | None = None) -> str:
    from mtkit.cli.option_synonyms import option_for_key  # the keys of all recipes take a while to import

    return option_for_key(section, word, names)


def _invoke(words: list[str]) -> int:
    match words:
        case [] | ["help"]:
            words = ["--help"]
        case ["help", name, *_]:
            words = [name, "--help"]
        case ["version"]:
            words = ["--version"]
    words = [*accept_shell_name(words)]
    command = build_app()
    try:
        if COMPLETION_VARIABLE in os.environ:
            command.main(words, prog_name="mtkit", complete_var=COMPLETION_VARIABLE)
        with command.make_context("mtkit", words) as context:
            errors.option_for = _option_for
            command.invoke(context)
    except SystemExit as end:  # of shell completion and its installation
        sys.stdout.flush()
        return end.code if isinstance(end.code, int) else 0
    except typer.Exit as end:
        sys.stdout.flush()
        return end.exit_code
    sys.stdout.flush()
    return 0
