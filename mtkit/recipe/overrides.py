"""Merging of value trees: `base:` recipes and `key=value` overrides of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mtkit.errors import RecipeError
from mtkit.recipe.yaml_reader import COMMAND_LINE, LocatedValue, Origin, read_value


def merge(base: LocatedValue, top: LocatedValue) -> LocatedValue:
    """Merge two trees; values of `top` take precedence.

    Mappings are merged key by key. Lists and scalars are replaced as a whole. A mapping with another `kind` than its
    base replaces it as a whole, since each kind has its own keys.
    """
    if not isinstance(base.value, dict) or not isinstance(top.value, dict) or _changes_kind(base.value, top.value):
        return top
    merged = dict(base.value)
    for key, value in top.value.items():
        merged[key] = merge(merged[key], value) if key in merged else value
    return LocatedValue(merged, top.origin)


_NAMED = {("chosen",), ("corpus", "test")}  # mappings whose keys are names, which may have dots


def nested(path: str, value: LocatedValue) -> LocatedValue:
    """Partial recipe with a value at a path."""
    for key in reversed(path.split(".")):
        value = LocatedValue({key: value}, value.origin)
    return value


def nest_dotted_keys(tree: LocatedValue, errors: list[str], path: tuple[str, ...] = ()) -> LocatedValue:
    """A recipe, or a part of one, with `model.dropout: x` as `model: {dropout: x}`; `errors` collects duplicates."""
    if not isinstance(tree.value, dict) or path in _NAMED:
        return tree
    result = LocatedValue({}, tree.origin)
    for key, value in tree.value.items():
        parts = key.split(".") if all(key.split(".")) else [key]
        inner = nest_dotted_keys(value, errors, (*path, *parts))
        _add(result.value, nested(key, inner).value if len(parts) > 1 else {key: inner}, errors)
    return result


def _add(items: dict[str, LocatedValue], new: dict[str, LocatedValue], errors: list[str]) -> None:
    for key, value in new.items():
        old = items.setdefault(key, value)
        if old is not value and isinstance(old.value, dict) and isinstance(value.value, dict):
            _add(old.value, value.value, errors)
        elif old is not value:
            errors.append(f"{value.origin.location}: {key}: duplicate key; first defined in {old.origin.location}")


def _changes_kind(base: dict[str, LocatedValue], top: dict[str, LocatedValue]) -> bool:
    return "kind" in top and "kind" in base and top["kind"].value != base["kind"].value


def apply_overrides(tree: LocatedValue, overrides: Sequence[str], folder: Path, errors: list[str]) -> LocatedValue:
    """Apply overrides to a tree; `kind` overrides come first, because a new kind discards the keys of the old one.

    Args:
        tree: a recipe.
        overrides: `key=value` each; the key is a path with dots, list items by number.
        folder: base of relative paths in the values.
        errors: collects the errors of the values.

    Raises:
        RecipeError: an override has no `=`, or its path leads to a list item that does not exist.
    """
    parsed = [_parse(text, folder, errors) for text in overrides]
    for path, value in sorted(parsed, key=lambda item: item[0][-1] != "kind"):
        tree = _set_value(tree, path, value, ".".join(path))
    return tree


def _parse(text: str, folder: Path, errors: list[str]) -> tuple[list[str], LocatedValue]:
    path, equals, value = text.partition("=")
    if not equals or not all(path.split(".")) or path != path.strip():
        raise RecipeError(f"{COMMAND_LINE}: {text}: an override has the form key=value, such as training.seed=2")
    return path.split("."), read_value(value, path, folder, errors)


def _set_value(tree: LocatedValue, path: list[str], value: LocatedValue, name: str) -> LocatedValue:
    """Return `tree` with `value` at `path`."""
    if not path:
        return LocatedValue(value.value, Origin(COMMAND_LINE, value.origin.folder, from_file=False))
    key, rest = path[0], path[1:]
    if isinstance(tree.value, list):
        return _set_item(tree, path, value, name)
    items = dict(tree.value) if isinstance(tree.value, dict) else {}  # a mapping replaces a scalar
    missing = LocatedValue(None, Origin(COMMAND_LINE, value.origin.folder, from_file=False))
    if key == "kind" and not rest and "kind" in items and items["kind"].value != value.value:
        items = {}
    items[key] = _set_value(items.get(key, missing), rest, value, name)
    return LocatedValue(items, tree.origin)


def _set_item(tree: LocatedValue, path: list[str], value: LocatedValue, name: str) -> LocatedValue:
    items = list(tree.value)
    number = int(path[0]) if path[0].isascii() and path[0].isdigit() else None
    if number is None or number > len(items):
        raise RecipeError(
            f"{COMMAND_LINE}: {name}: {path[0]} is not an index of this list of {len(items)} items; indices start at 0"
        )
    if number == len(items):
        items.append(LocatedValue(None, Origin(COMMAND_LINE, value.origin.folder, from_file=False)))
    items[number] = _set_value(items[number], path[1:], value, name)
    return LocatedValue(items, tree.origin)
