"""Exceptions into exit codes and error messages; a usage error in one sentence, with a suggestion.

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
import re
import signal
import sys
import textwrap
import traceback
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import typer

from mtkit.cli.printing import print_notes
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
MAX_NAMED = 3  # commands in a message
MISSPELT = 0.8  # similarity of letters at which an option is named

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

# typer exports this subclass of click's UsageError, but not UsageError itself
ClickUsageError = cast(type[typer.BadParameter], typer.BadParameter.__bases__[0])

# caused by the user, the machine or another program; any other exception is a bug in mtkit (see is_bug)
EXPECTED_ERRORS = (
    *(MtkitError, ClickUsageError, KeyboardInterrupt, OSError, MemoryError),
    *(RuntimeError, ImportError, ValueError),
)
LOG_SETTINGS = "TORCH_LOGS"  # environment variable that torch reads while it is imported


def is_bug(error: BaseException) -> bool:
    """Return whether one of EXPECTED_ERRORS is a bug in mtkit after all: neither memory nor TORCH_LOGS caused it."""
    if isinstance(error, ValueError):
        return LOG_SETTINGS not in os.environ or "Invalid log settings" not in str(error)
    return isinstance(error, RuntimeError | ImportError) and not is_oom(error)


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
        lines = [
            *lines[: MAX_MESSAGE_LINES - 1],
            f"... and {len(lines) - MAX_MESSAGE_LINES + 1} more; --debug shows all",
        ]
    with suppress(OSError):  # stderr on a full disk; the exit code remains
        print_notes(lines)
        sys.stderr.flush()


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


_EXTRA_ARGUMENTS = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)")

COMPLETION_OPTIONS = ("--install-completion", "--show-completion")
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def accept_shell_name(words: Sequence[str]) -> Sequence[str]:
    """The words for typer, whose options of shell completion take no name of a shell: it detects the shell by itself.

    A name is needed where none is recognised, and is then what shellingham, which typer asks, detects.

    Raises:
        UsageError: the shell is unknown.
    """
    if not words or words[0] not in COMPLETION_OPTIONS:
        return words
    import shellingham

    try:
        name = words[1] if len(words) > 1 else str(shellingham.detect_shell()[0])
    except shellingham.ShellDetectionFailure:
        name = ""
    if name not in SHELLS:
        shell = f"{name}: no completion for this shell" if name else "the running shell was not recognised"
        raise UsageError(f"{words[0]}: {shell}; name one of {', '.join(SHELLS)}: mtkit {words[0]} bash")
    if len(words) > 1:
        shellingham.detect_shell = lambda: (name, name)
    return [words[0], *words[2:]]


def explain_usage_error(error: typer.BadParameter, first_word: str) -> str:
    """The message for a wrong command line: `train: --fersh: no such option; did you mean --fresh? See ...`.

    Args:
        first_word: of the command line. Where an option lacks its value, typer does not know the command.
    """
    if error.ctx is not None:
        command = error.ctx.command_path
    else:
        command = "mtkit" if first_word.startswith("-") else f"mtkit {first_word}".rstrip()
    place = command.removeprefix("mtkit").lstrip()
    problem = _problem(error)
    help_line = f" See {command} --help" if problem.endswith("?") else f"; see {command} --help"
    return f"{place}: {problem}{help_line}".removeprefix(": ")


def _problem(error: typer.BadParameter) -> str:
    facts = vars(error)
    if "possibilities" in facts and "option_name" in facts:
        return _no_such_option(str(facts["option_name"]), error)
    if "option_name" in facts and "requires an argument" in error.message:
        return f"{facts['option_name']}: its value is missing"
    if extra := _EXTRA_ARGUMENTS.match(error.message):
        return _extra_arguments(extra[1].split(), error)
    if facts.get("param") is not None and error.__cause__ is not None:
        return _wrong_value(error)
    return _one_line(error)


def _one_line(error: typer.BadParameter) -> str:
    return " ".join(error.format_message().split()).rstrip(".") or "wrong usage"


def _wrong_value(error: typer.BadParameter) -> str:
    """The problem of a value that pydantic refused for typer, such as `--n-best: 'abc' is not an integer`."""
    cause: Any = error.__cause__
    if not hasattr(cause, "errors"):
        return _one_line(error)
    found = cause.errors()[0]
    value, limits = found["input"], found.get("ctx", {})
    problem = {
        "int_parsing": f"{value!r} is not an integer",
        "float_parsing": f"{value!r} is not a number",
        "greater_than_equal": f"{value} is out of range, the minimum is {limits.get('ge')}",
        "less_than_equal": f"{value} is out of range, the maximum is {limits.get('le')}",
        "value_error": str(limits.get("error", "")).rstrip("."),
    }.get(found["type"])
    if not problem:
        return _one_line(error)
    names = [name for name in error.param.opts if name.startswith("-")] if error.param is not None else []
    place = names[0] if names else str(error.param.metavar if error.param is not None else "")
    is_option = isinstance(value, str) and value in _option_names(error)
    return f"{place}: {problem}" + (f"; is the value of {place} missing?" if is_option else "")


def _no_such_option(option: str, error: typer.BadParameter) -> str:
    import difflib

    from mtkit.cli.app import COMMANDS, build_command
    from mtkit.cli.option_synonyms import answer_of_section, derived_answer, main_parts, option_answer

    problem = f"{option}: no such option"
    options = ["--help", "--debug", *_option_names(error)]
    command = "" if error.ctx is None else str(error.ctx.info_name)
    answer = option_answer(option, command, options)
    if answer is None and error.ctx is not None and len(option) > 3:
        answer = derived_answer(option, error.ctx.command)
    if answer is not None:
        return f"{problem}; {answer}"
    if len(option) > 3 and (keys := _recipe_keys(option, options, error, exact=True)):
        return f"{problem}; {keys}"
    if len(option) > 3 and (answer := answer_of_section(option, command)):
        return f"{problem}; {answer}"
    begun = [each for each in options if len(option) > 3 and each.startswith(option)]
    if match := begun or difflib.get_close_matches(option, options, n=1, cutoff=MISSPELT):
        return f"{problem}; did you mean {match[0]}?"
    parts = main_parts(option[2:])
    if within := [each for each in options if len(each) > 3 and parts > main_parts(each[2:]) - {"max"} > set()]:
        return f"{problem}; did you mean {within[0]}?"
    others = [name for name in COMMANDS if any(option in each.opts for each in build_command(name).params)][:MAX_NAMED]
    if others and command:
        names = " and ".join(f"mtkit {each}" for each in others)
        return f"{problem}; {names} {'have' if len(others) > 1 else 'has'} it"
    if len(option) > 3 and (keys := _recipe_keys(option, options, error)):
        return f"{problem}; {keys}"
    if answer := option_answer(option, command, options, similar=True):
        return f"{problem}; {answer}"
    return problem


def _recipe_keys(option: str, options: Sequence[str], error: typer.BadParameter, *, exact: bool = False) -> str:
    """The advice for an option of another program, such as --epochs, that is a key here; empty if it is none."""
    from mtkit.recipe.sections import Recipe
    from mtkit.recipe.suggestions import keys_of_option

    takes_keys = error.ctx is not None and any("key=value" in str(each.metavar) for each in error.ctx.command.params)
    if takes_keys:
        keys = keys_of_option(option, Recipe, exact=exact)
        return f"keys of a recipe are arguments: {' or '.join(f'{key}=VALUE' for key in keys)}" if keys else ""
    keys = keys_of_option(option, Recipe, ["search"], exact=exact) if "--set" in options else []
    if own := [name for key in keys if (name := f"--{key.rpartition('.')[2].replace('_', '-')}") in options]:
        return f"give {own[0]}"
    if keys:
        return f"give --set {' or --set '.join(f'{key}=VALUE' for key in keys)}"
    if "--recipe" in options and (keys := keys_of_option(option, Recipe, ["tokenizer"], exact=exact)):
        return f"give --recipe RECIPE, with {keys[0]}"
    of_training = keys_of_option(option, Recipe, ["training", "model"], exact=True) if exact else []
    of_training = [key for key in of_training if key.count(".") == 1]  # the lower ones have common names
    return f"a recipe has it: mtkit train RECIPE {of_training[0]}=VALUE" if of_training else ""


def _extra_arguments(words: Sequence[str], error: typer.BadParameter) -> str:
    """The problem of arguments that the command does not take, with the options that take them."""
    options = _option_names(error)
    problem = f"{' '.join(words)}: unexpected argument{'s' if len(words) > 1 else ''}"
    settings = [word for word in words if "=" in word]
    if settings and "--set" in options:
        key, _, value = settings[0].removeprefix("search.").partition("=")
        own = f"--{key.replace('_', '-')}"
        return f"{problem}; give --set {settings[0]}" + (f", or {own} {value}" if own in options else "")
    if {"--src", "--ref"} <= set(options):
        return f"{problem}; source and translation are options: --src FILE --ref FILE"
    if len(words) == 1 and not settings and error.ctx is not None:
        names = [parameter.name for parameter in error.ctx.command.params if "-o" in parameter.opts]
        if any(error.ctx.params.get(name or "") is None for name in names):
            return f"{problem}; to write to it, give -o {words[0]}"
    return problem


def _option_names(error: typer.BadParameter) -> list[str]:
    """Names of the options of the command; none if the command is unknown."""
    parameters = error.ctx.command.params if error.ctx is not None else []
    return [name for parameter in parameters for name in parameter.opts if name.startswith("-")]
