"""Usage errors in one sentence: the problem, a suggestion, and where to find help."""

from __future__ import annotations

from typing import cast

import typer

# typer exports this subclass of click's UsageError, but not UsageError itself
ClickUsageError = cast(type[typer.BadParameter], typer.BadParameter.__bases__[0])


def explain_usage_error(error: typer.BadParameter) -> str:
    """The message for a wrong command line: `train: --fersh: no such option; did you mean --fresh? See ...`."""
    command = error.ctx.command_path if error.ctx is not None else "mtkit"
    place = command.removeprefix("mtkit").lstrip()
    problem = _problem(error)
    help_line = f" See {command} --help" if problem.endswith("?") else f"; see {command} --help"
    return f"{place}: {problem}{help_line}".removeprefix(": ")


def _problem(error: typer.BadParameter) -> str:
    facts = vars(error)
    if "possibilities" in facts and "option_name" in facts:
        return _no_such_option(str(facts["option_name"]), error)
    return " ".join(error.format_message().split()).rstrip(".") or "wrong usage"


def _no_such_option(option: str, error: typer.BadParameter) -> str:
    import difflib

    known = ["--help", "--debug"]
    if error.ctx is not None:
        known += [name for parameter in error.ctx.command.params for name in parameter.opts if name.startswith("-")]
    match = difflib.get_close_matches(option, known, n=1, cutoff=0.6)
    return f"{option}: no such option" + (f"; did you mean {match[0]}?" if match else "")
