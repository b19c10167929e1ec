"""Paths of a recipe as text: home folder, environment variables, and their escape."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mtkit.errors import RecipeError
from mtkit.recipe.yaml_reader import LocatedValue

_VARIABLE = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{([^}]*)\})")


def expand_path(text: str) -> str:
    """Replace `~` and environment variables, `$NAME` or `${NAME}`; `$$` is a dollar sign.

    Raises:
        ValueError: the text has a NUL, or a variable is not set, or set to nothing.
    """
    if "\0" in text:
        raise ValueError(f"{text!r} is not a valid path")

    def value(match: re.Match[str]) -> str:
        if match[1] is not None:
            return "$"
        name = match[2] or match[3]
        if not os.environ.get(name):
            raise ValueError(
                f"{text!r}: the environment variable {name} is not set; set it, or write $$ if the path has a $"
            )
        return os.environ[name]

    return _VARIABLE.sub(value, os.path.expanduser(text))


def base_path(base: LocatedValue) -> Path:
    """Return the path of a `base:` recipe.

    Raises:
        RecipeError: it has a variable that is not set.
    """
    try:
        return base.origin.folder / expand_path(base.value)
    except ValueError as error:
        raise RecipeError(f"{base.origin.location}: base: {error}") from error


def escape_path(path: Path) -> str:
    """Return a path as text that `expand_path` leaves as it is."""
    return str(path).replace("$", "$$")
