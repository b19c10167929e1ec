"""A command that was called wrongly, told in one sentence."""

from __future__ import annotations

from typing import cast

import typer

# the library's class for all wrong usage, of which it exports only this subclass
UsageFault = cast(type[typer.BadParameter], typer.BadParameter.__bases__[0])


def explain(fault: typer.BadParameter) -> str:
    """What is wrong with the command line, what was probably meant, and where help is."""
    command = fault.ctx.command_path if fault.ctx is not None else "mtkit"
    place = command.removeprefix("mtkit").lstrip()
    problem = _problem(fault)
    help_line = f" See {command} --help" if problem.endswith("?") else f"; see {command} --help"
    return f"{place}: {problem}{help_line}".removeprefix(": ")


def _problem(fault: typer.BadParameter) -> str:
    facts = vars(fault)
    if "possibilities" in facts and "option_name" in facts:
        return _no_such_option(str(facts["option_name"]), fault)
    return " ".join(fault.format_message().split()).rstrip(".") or "wrong usage"


def _no_such_option(option: str, fault: typer.BadParameter) -> str:
    import difflib

    known = ["--help", "--debug"]
    if fault.ctx is not None:
        known += [name for parameter in fault.ctx.command.params for name in parameter.opts if name.startswith("-")]
    match = difflib.get_close_matches(option, known, n=1, cutoff=0.6)
    return f"{option}: no such option" + (f"; did you mean {match[0]}?" if match else "")
