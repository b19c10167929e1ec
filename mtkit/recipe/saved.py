"""The recipe that a run folder keeps: written with every key, absolute paths and a checksum."""

from __future__ import annotations

from pathlib import Path

import yaml

from mtkit.errors import DamagedError
from mtkit.io.records import DAMAGED, is_record, is_text_record, write_text_record
from mtkit.recipe.paths import to_plain
from mtkit.recipe.sections import Recipe
from mtkit.recipe.yaml_reader import StrictLoader

RESTORE = "undo the change, or restore it from a copy; nothing was changed"  # remedy for a damaged one
RECIPE, VERSION = "recipe.yaml", "version.json"  # names in a run folder


class _Dumper(yaml.SafeDumper):
    """YAML writer that quotes every string that YAML 1.1 or 1.2 would read as another type."""


for _first, _pairs in StrictLoader.yaml_implicit_resolvers.items():
    for _tag, _pattern in _pairs:
        _Dumper.add_implicit_resolver(_tag, _pattern, [_first])


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Write a recipe with every key and absolute paths, so that it is independent of its location.

    Raises:
        ReadWriteError: the file cannot be written.
    """
    write_text_record(path, yaml.dump(to_plain(recipe), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


def is_saved(path: Path) -> bool:
    """Return whether a recipe was written by `save_recipe`.

    Raises:
        DamagedError: it is the recipe of a run folder, and was changed.
        ReadWriteError: it cannot be read.
    """
    if is_text_record(path):
        return True
    if path.name == RECIPE and is_record(path.with_name(VERSION)):
        remedy = "undo the change; make changes with KEY=VALUE, or in another file"
        raise DamagedError(f"{path}: the recipe of a run, {DAMAGED}", remedy)
    return False
