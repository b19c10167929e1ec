"""Paths: recipes and studies by path or built-in name, and the text of paths in them with its variables."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.resources
import os
import re
from pathlib import Path
from typing import Any, Literal

from mtkit.errors import MissingInputError
from mtkit.io.files import require_regular_file

RECIPE_SUFFIXES = (".yaml", ".yml")  # by which `mtkit run` tells a recipe from a text
Kind = Literal["recipe", "study", "claim"]
_FOLDERS: dict[Kind, str] = {"recipe": "recipes", "study": "recipes/studies", "claim": "recipes/claims"}
_VARIABLE = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{([^}]*)\})")


def builtin_files(kind: Kind) -> dict[str, Path]:
    """Built-in YAML files of a kind, by name; a file of claims has several, one under each of its keys."""
    package = Path(str(importlib.resources.files("mtkit")))
    installed, checkout = package / _FOLDERS[kind], package.parent / _FOLDERS[kind]
    folder = installed if installed.is_dir() else checkout
    paths = sorted(folder.glob("*.yaml"))
    if kind != "claim":
        return {path.stem: path for path in paths}
    return {name: path for path in paths for name in re.findall(r"^([\w-]+):", path.read_text("utf-8"), re.M)}


def resolve_recipe_path(kind: Kind, name_or_path: str) -> Path:
    """Find a YAML file by its path or by the name of a built-in one.

    Raises:
        MissingInputError: no such file; the message lists similar names and the built-in files.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    builtin = builtin_files(kind)
    if name_or_path in builtin:
        return builtin[name_or_path]
    if path.is_dir():
        raise MissingInputError(f"{path}: a folder, not a {kind}; pass the YAML file")
    if path.exists():
        require_regular_file(path)
    siblings = [str(p) for p in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    match = difflib.get_close_matches(name_or_path, siblings, n=1) or difflib.get_close_matches(path.stem, builtin, n=1)
    hint = f"; did you mean {match[0]}?" if match else ""
    raise MissingInputError(
        f"{name_or_path}: no such {kind}{hint}\na {kind} is a file or one of: {', '.join(builtin) or 'none built in'}"
    )


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


def escape_path(path: Path) -> str:
    """Return a path as text that `expand_path` leaves as it is."""
    return str(path).replace("$", "$$")


def to_plain(value: Any) -> Any:
    """Convert dataclasses to mappings, lists and scalars, with every key; paths are text as in YAML."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return escape_path(value) if isinstance(value, Path) else value
