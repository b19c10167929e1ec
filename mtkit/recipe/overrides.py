"""`key=value` on the command line, and one recipe on the base of another: trees of stated values, merged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mtkit.errors import RecipeError
from mtkit.recipe.yaml_reader import COMMAND_LINE, Origin, Stated, read_value


def merge(base: Stated, top: Stated) -> Stated:
    """`top` where it states something, `base` elsewhere.

    Mappings are merged key by key, lists and scalars are replaced as a whole. A mapping that states another `kind`
    than its base starts afresh, since the keys of the one kind mean nothing to the other.
    """
    if not isinstance(base.value, dict) or not isinstance(top.value, dict) or _other_kind(base.value, top.value):
        return top
    merged = dict(base.value)
    for key, value in top.value.items():
        merged[key] = merge(merged[key], value) if key in merged else value
    return Stated(merged, top.origin)


def _other_kind(base: dict[str, Stated], top: dict[str, Stated]) -> bool:
    return "kind" in top and "kind" in base and top["kind"].value != base["kind"].value


def apply_overrides(tree: Stated, overrides: Sequence[str], folder: Path, faults: list[str]) -> Stated:
    """State the values of `overrides` in `tree`, the kinds first, since another kind starts a mapping afresh.

    Args:
        tree: a recipe.
        overrides: `key=value` each; the key is a path with dots, items of a list by number.
        folder: what relative paths in the values are relative to.
        faults: takes what is wrong with the values.

    Raises:
        RecipeError: one of them has no `=`, or its path leads through something that is not there.
    """
    parsed = [_parse(text, folder, faults) for text in overrides]
    for path, value in sorted(parsed, key=lambda item: item[0][-1] != "kind"):
        tree = _put(tree, path, value, ".".join(path))
    return tree


def _parse(text: str, folder: Path, faults: list[str]) -> tuple[list[str], Stated]:
    path, equals, value = text.partition("=")
    if not equals or not all(path.split(".")) or path != path.strip():
        raise RecipeError(f"{COMMAND_LINE}: {text}: an override has the form key=value, such as training.seed=2")
    return path.split("."), read_value(value, path, folder, faults)


def _put(tree: Stated, path: list[str], value: Stated, name: str) -> Stated:
    """`tree` with `value` at `path`."""
    if not path:
        return Stated(value.value, Origin(COMMAND_LINE, value.origin.folder, from_file=False))
    key, rest = path[0], path[1:]
    if isinstance(tree.value, list):
        return _put_item(tree, path, value, name)
    items = dict(tree.value) if isinstance(tree.value, dict) else {}  # a scalar gives way to a mapping
    here = Stated(None, Origin(COMMAND_LINE, value.origin.folder, from_file=False))
    if key == "kind" and not rest and "kind" in items and items["kind"].value != value.value:
        items = {}
    items[key] = _put(items.get(key, here), rest, value, name)
    return Stated(items, tree.origin)


def _put_item(tree: Stated, path: list[str], value: Stated, name: str) -> Stated:
    items = list(tree.value)
    number = int(path[0]) if path[0].isascii() and path[0].isdigit() else None
    if number is None or number > len(items):
        raise RecipeError(
            f"{COMMAND_LINE}: {name}: {path[0]} is not an item of this list of {len(items)}, whose first is number 0"
        )
    here = Stated(None, Origin(COMMAND_LINE, value.origin.folder, from_file=False))
    if number == len(items):
        items.append(here)
    items[number] = _put(items[number], path[1:], value, name)
    return Stated(items, tree.origin)
