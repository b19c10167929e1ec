"""The tree of a recipe's values: a file with its bases, and overrides of the command line, each value with its origin.

Keys of the tree are those that the recipe states; nothing is known yet of types and defaults (see schema.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mtkit.errors import MissingInputError, RecipeError
from mtkit.recipe import schema
from mtkit.recipe.located import COMMAND_LINE, LocatedValue, Origin, with_location
from mtkit.recipe.paths import builtin_files, expand_path, to_plain
from mtkit.recipe.suggestions import suggest
from mtkit.recipe.type_hints import dataclass_members, unwrap_hint, walk_keys
from mtkit.search.config import SearchConfig

CHOSEN = "chosen from the corpus"  # location of a value that mtkit chose, in messages


def complete_tree(path: Path, overrides: Sequence[str], errors: list[str]) -> LocatedValue:
    """Read a recipe with its bases, apply overrides, and add the name and the values that others imply.

    Nothing is implied with `defaults: fixed`.

    Args:
        path: of the recipe; its stem is the name of a recipe that states none.
        overrides: `key=value` each; relative paths in them are relative to the current directory.

    Raises:
        RecipeError, MissingInputError: as `read_tree`; or an override is malformed.
    """
    tree = with_values(read_tree(path, errors), {"name": path.stem})
    tree = apply_overrides(tree, overrides, Path.cwd(), errors)
    defaults, model, shared = map(tree.at, ("defaults", "tokenizer.model", "tokenizer.shared"))
    if defaults is not None and defaults.value == "fixed":
        return tree
    # two tokenizer models are two vocabularies, and with two vocabularies the embeddings of both sides differ
    values: dict[str, Any] = {}
    if model is not None and isinstance(model.value, dict) and not tree.states("tokenizer.shared"):
        values["tokenizer.shared"] = False
    has_two = values or (shared is not None and shared.value is False)
    if has_two and not tree.states("model.tied_embeddings"):
        values["model.tied_embeddings"] = "target"
    return with_values(tree, values)


def read_tree(path: Path, errors: list[str]) -> LocatedValue:
    """Read a recipe and its bases.

    Raises:
        RecipeError: a file is not YAML or not a mapping, or a recipe is its own base.
        MissingInputError: a base does not exist.
    """
    from mtkit.recipe.yaml_reader import read_yaml_file  # a search without overrides needs no YAML

    tree = nest_dotted_keys(read_yaml_file(path, errors), errors)
    seen = [path.resolve()]
    while True:
        if not isinstance(tree.value, dict):
            from mtkit.recipe.sections import Recipe  # whose sections import torch

            known = ", ".join(field.name for field in fields(Recipe))
            raise RecipeError(f"{tree.origin.location}: a recipe is a mapping with the keys {known}")
        if "base" not in tree.value:
            return tree
        base = tree.value["base"]
        if not isinstance(base.value, str):
            raise RecipeError(f"{base.origin.location}: base: {base.to_plain()!r} is not a path")
        path = base_path(base)
        seen.append(path.resolve())
        if seen[-1] in seen[:-1]:
            cycle = " -> ".join(each.name for each in seen[seen.index(seen[-1]) :])
            raise RecipeError(f"{base.origin.location}: base: circular: {cycle}")
        top = LocatedValue({k: v for k, v in tree.value.items() if k != "base"}, tree.origin)
        below = nest_dotted_keys(read_yaml_file(path, errors), errors)
        tree = merge(below, top) if isinstance(below.value, dict) else below


def base_path(base: LocatedValue) -> Path:
    """Return the path of a `base:` recipe, a file or the name of a built-in one.

    Raises:
        RecipeError: it has a variable that is not set.
        MissingInputError: there is no such recipe.
    """
    builtin = builtin_files("recipe")
    if base.value in builtin:
        return builtin[base.value]
    try:
        path = base.origin.folder / expand_path(base.value)
    except ValueError as error:
        raise RecipeError(f"{base.origin.location}: base: {error}") from error
    if not path.exists():
        hint = suggest(base.value, list(builtin))
        raise MissingInputError(f"{base.origin.location}: base: {base.value}: no such recipe{hint}")
    return path


def merge(base: LocatedValue, top: LocatedValue, path: str = "") -> LocatedValue:
    """Merge two trees at a path; values of `top` take precedence.

    Mappings are merged key by key, also where the base has a word or number for one. Lists and scalars are replaced as
    a whole. A mapping with another `kind` than its base replaces it as a whole, since each kind has its own keys.
    """
    if isinstance(top.value, dict):
        base = _as_mapping(base, path)
    if not isinstance(base.value, dict) or not isinstance(top.value, dict):
        return top
    if "kind" in top.value and "kind" in base.value and top.value["kind"].value != base.value["kind"].value:
        return top
    merged = dict(base.value)
    for key, value in top.value.items():
        merged[key] = merge(merged[key], value, f"{path}.{key}".lstrip(".")) if key in merged else value
    return LocatedValue(merged, top.origin)


def _as_mapping(located: LocatedValue, path: str) -> LocatedValue:
    """The mapping that a word or number at a path stands for, below which further keys are stated; others as they are.

    schema.py does the same where nothing stands below it.
    """
    located = LocatedValue(located.value, located.origin)
    if isinstance(located.value, str | int | float):
        from mtkit.recipe.sections import Recipe

        for hint in (hint for key, hint, _ in walk_keys(Recipe) if key == path):
            schema.expand(located, dataclass_members(hint), unwrap_hint(hint).members)
    return located


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


def apply_overrides(tree: LocatedValue, overrides: Sequence[str], folder: Path, errors: list[str]) -> LocatedValue:
    """Apply overrides to a tree; `kind` overrides come first, because a new kind discards the keys of the old one.

    Args:
        overrides: `key=value` each; the key is a path with dots, list items by number.
        folder: base of relative paths in the values.

    Raises:
        RecipeError: an override has no `=`, or its path leads to a list item that does not exist.
    """
    parsed = []
    for text in overrides:
        path, equals, value = text.partition("=")
        if not equals or not all(path.split(".")) or path != path.strip():
            raise RecipeError(f"{COMMAND_LINE}: {text}: an override has the form key=value, such as training.seed=2")
        if re.fullmatch("[1-9][0-9]{0,8}|0", value):  # an integer, such as a beam size, needs no reader of YAML
            located = LocatedValue(int(value), Origin(COMMAND_LINE, folder, from_file=False))
        else:
            from mtkit.recipe.yaml_reader import read_value

            located = read_value(value, path, folder, errors)
        parsed.append((path.split("."), located))
    for keys, located in sorted(parsed, key=lambda item: item[0][-1] != "kind"):
        tree = _set_value(tree, keys, located, ".".join(keys))
    return tree


def _set_value(tree: LocatedValue, path: list[str], value: LocatedValue, name: str) -> LocatedValue:
    """Return `tree` with `value` at `path`."""
    origin = Origin(COMMAND_LINE, value.origin.folder, from_file=False)
    if not path:
        return LocatedValue(value.value, origin)
    key, rest, missing = path[0], path[1:], LocatedValue(None, origin)
    if isinstance(tree.value, list):
        items = list(tree.value)
        number = int(key) if key.isascii() and key.isdigit() else None
        if number is None or number > len(items):
            raise RecipeError(
                f"{COMMAND_LINE}: {name}: {key} is not an index of this list of {len(items)} items; indices start at 0"
            )
        items[number : number + 1] = [_set_value((*items, missing)[number], rest, value, name)]
        return LocatedValue(items, tree.origin)
    tree = _as_mapping(tree, ".".join(name.split(".")[: -len(path)]))
    values = dict(tree.value) if isinstance(tree.value, dict) else {}  # a mapping replaces another scalar
    if key == "kind" and not rest and "kind" in values and values["kind"].value != value.value:
        values = {}
    values[key] = _set_value(values.get(key, missing), rest, value, name)
    return LocatedValue(values, tree.origin)


def with_values(tree: LocatedValue, values: Mapping[str, Any]) -> LocatedValue:
    """Return a tree with values that mtkit chose for keys that it does not state."""
    origin = Origin(CHOSEN, tree.origin.folder, from_file=False)
    for path, value in values.items():
        tree = merge(nested(path, LocatedValue(value, origin)), tree)
    return tree


def load_search(default: SearchConfig, overrides: Sequence[str]) -> SearchConfig:
    """Apply overrides to a search configuration: `search.beam_size=1`, or the key without `search.`.

    Raises:
        RecipeError: an override is invalid.
    """
    if not overrides:
        return default
    errors: list[str] = []
    tree = with_location({"search": to_plain(default)}, "config.json", Path.cwd())
    full = [text if text.startswith("search.") else f"search.{text}" for text in overrides]
    # the beam is as wide as the requested translations, if no override states the beam
    stated = dict(text.split("=", 1) for text in full if "=" in text)
    wanted = stated.get("search.n_best", "")
    is_free = not any(key.startswith(("search.beam_size", "search.method")) for key in stated)
    if is_free and default.method.num_hypotheses_key == "beam_size" and wanted.isdigit():
        full += [f"search.beam_size={wanted}"] if int(wanted) > default.beam_size else []
    tree = apply_overrides(tree, full, Path.cwd(), errors)
    result: _SearchOverrides = schema.build(_SearchOverrides, tree, errors)
    return result.search


@dataclass(frozen=True)
class _SearchOverrides:
    search: SearchConfig
