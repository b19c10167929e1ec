"""Usage errors in one sentence: the problem, a suggestion, and where to find help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import typer

from mtkit.errors import UsageError

# typer exports this subclass of click's UsageError, but not UsageError itself
ClickUsageError = cast(type[typer.BadParameter], typer.BadParameter.__bases__[0])

_EXTRA_ARGUMENTS = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)")

# options of earlier versions, with what to do instead
_REMOVED_OPTIONS = {
    "--shortlist": "was removed, since it cost quality and hardly saved time; omit it",
    "--engine": "was removed: mtkit runs its models itself; omit it (mtkit export writes a model for CTranslate2)",
}

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

    if option in _REMOVED_OPTIONS:
        return f"{option}: {_REMOVED_OPTIONS[option]}"
    problem = f"{option}: no such option"
    if option == "--budget":
        return f"{problem}; mtkit run and mtkit train have it"
    if keys := " or ".join(f"{key}=VALUE" for key in _recipe_keys(option, error)):
        return f"{problem}; keys of a recipe are arguments: {keys}"
    match = difflib.get_close_matches(option, ["--help", "--debug", *_option_names(error)], n=1, cutoff=0.6)
    return problem + (f"; did you mean {match[0]}?" if match else "")


def _recipe_keys(option: str, error: typer.BadParameter) -> Sequence[str]:
    """Keys of a recipe that an option of another program stands for, such as --epochs, if the command takes keys."""
    if error.ctx is None or all(parameter.name != "overrides" for parameter in error.ctx.command.params):
        return ()
    from mtkit.recipe.synonyms import KEY_SYNONYMS

    word = option.strip("-").replace("-", "_")
    if word in KEY_SYNONYMS:
        return KEY_SYNONYMS[word].targets
    targets = (target for synonym in KEY_SYNONYMS.values() for target in synonym.targets)
    return sorted({target for target in targets if target.rpartition(".")[2] == word})


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
    if len(words) == 1 and not settings and _is_omitted("-o", error):
        return f"{problem}; to write to it, give -o {words[0]}"
    return problem


def _is_omitted(option: str, error: typer.BadParameter) -> bool:
    """Return whether the command has this option and the command line lacks it."""
    if error.ctx is None:
        return False
    names = [parameter.name for parameter in error.ctx.command.params if option in parameter.opts]
    return any(error.ctx.params.get(name or "") is None for name in names)


def _option_names(error: typer.BadParameter) -> list[str]:
    """Names of the options of the command; none if the command is unknown."""
    parameters = error.ctx.command.params if error.ctx is not None else []
    return [name for parameter in parameters for name in parameter.opts if name.startswith("-")]
