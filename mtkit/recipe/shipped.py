"""The YAML files that a command may be given: one of the user's, or one that comes with mtkit and is called by name."""

from __future__ import annotations

import difflib
import importlib.resources
from pathlib import Path
from typing import Literal

from mtkit.errors import MissingInputError

Kind = Literal["recipe", "study"]
_FOLDERS: dict[Kind, str] = {"recipe": "recipes", "study": "recipes/studies"}


def shipped(kind: Kind) -> dict[str, Path]:
    """The files of a kind that come with mtkit, by name."""
    package = Path(str(importlib.resources.files("mtkit")))
    installed, checkout = package / _FOLDERS[kind], package.parent / _FOLDERS[kind]
    folder = installed if installed.is_dir() else checkout
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find(kind: Kind, name_or_path: str) -> Path:
    """The file of a kind, given its path or the name of a shipped one.

    Raises:
        MissingInputError: there is none; similar names and the shipped ones are listed.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    known = shipped(kind)
    if name_or_path in known:
        return known[name_or_path]
    if path.is_dir():
        raise MissingInputError(f"{path}: a folder, not a {kind}; give the YAML file")
    beside = [str(p) for p in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    match = difflib.get_close_matches(name_or_path, beside, n=1) or difflib.get_close_matches(path.stem, known, n=1)
    hint = f"; did you mean {match[0]}?" if match else ""
    raise MissingInputError(
        f"{name_or_path}: no such {kind}{hint}\na {kind} is a file or one of: {', '.join(known) or 'none shipped'}"
    )
