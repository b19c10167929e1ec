"""Dotted paths of configuration keys, such as training.optimiser.learning_rate, looked up in the dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from mtkit.recipe.type_hints import field_types, kind_of, unwrap_hint

MAX_DEPTH = 8  # of nested mappings


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Default of a dataclass field; MISSING if it is required."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def dataclass_members(hint: Any) -> list[Any]:
    """Dataclasses among the members of a type hint."""
    return [member for member in unwrap_hint(hint).members if dataclasses.is_dataclass(member)]


@cache
def key_paths(root: Any) -> Mapping[str, tuple[str, ...]]:
    """Paths of all keys of a configuration by their last component.

    Keys inside lists and inside mappings with names of the user's choice are left out, since their paths vary.
    """
    paths: dict[str, dict[str, None]] = {}
    for path in _walk(root, "", 0):
        paths.setdefault(path.rpartition(".")[2], {})[path] = None
    return {name: tuple(found) for name, found in paths.items()}


def _walk(cls: Any, prefix: str, depth: int) -> Iterator[str]:
    for name, hint in field_types(cls).items():
        if name != "kind":
            yield prefix + name
        for member in dataclass_members(hint) if depth < MAX_DEPTH else ():
            yield from _walk(member, f"{prefix}{name}.", depth + 1)


def has_path(root: Any, path: str, values: Mapping[str, Any] | None = None) -> bool:
    """Return whether a path names a key of a configuration.

    Args:
        root: the dataclass of the whole configuration.
        path: with dots.
        values: what the configuration states; only the kinds that it selects are considered. None: any kind.
    """
    name, _, rest = path.partition(".")
    hint = field_types(root).get(name)
    if hint is None or not rest:
        return hint is not None
    members = dataclass_members(hint)
    if values is None:
        return any(has_path(member, rest) for member in members)
    stated = values.get(name)
    inner: Mapping[str, Any] = stated if isinstance(stated, Mapping) else {}
    default = type(next(default_of(f) for f in dataclasses.fields(root) if f.name == name))
    selected = [m for m in members if (kind_of(m) == inner["kind"] if "kind" in inner else m is default)]
    return any(has_path(member, rest, inner) for member in selected or (members if len(members) == 1 else []))
