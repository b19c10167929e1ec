"""Type hints of configuration dataclasses: union members, limits, a description for messages, and paths of keys."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from mtkit.config import Limits

MAX_DEPTH = 8  # of nested mappings
MAX_LISTED_KEYS = 12  # in a message; `training:` has many more


class UnwrappedHint(NamedTuple):
    """Members and limits of a type hint."""

    members: tuple[Any, ...]  # of the union, or the single type
    limits: tuple[Any, ...]  # metadata of the enclosing Annotated


@cache
def field_types(cls: Any) -> dict[str, Any]:
    """Type hint of each key of a dataclass."""
    hints = get_type_hints(cls, include_extras=True)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init}


def kind_of(cls: Any) -> str | None:
    """Value of `kind:` that selects a dataclass; None if it has no kind."""
    hints: dict[str, Any] = field_types(cls) if dataclasses.is_dataclass(cls) else {}  # type: ignore[arg-type]
    hint = hints.get("kind")
    return None if hint is None else str(get_args(hint)[0])


def unwrap_hint(hint: Any) -> UnwrappedHint:
    """Split a hint into union members and limits, looking through Annotated and nested unions."""
    limits: tuple[Any, ...] = ()
    while get_origin(hint) is Annotated:
        hint, *more = get_args(hint)
        limits = (*limits, *more)
    if get_origin(hint) not in (Union, types.UnionType):
        return UnwrappedHint((hint,), limits)
    members: list[Any] = []
    for member in get_args(hint):
        inner = unwrap_hint(member)
        members.extend(inner.members if len(inner.members) > 1 else [member])
    return UnwrappedHint(tuple(members), limits)


def strip_annotated(hint: Any) -> Any:
    """Type without its Annotated metadata."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def has_type(value: Any, hint: Any) -> bool:
    """Return whether a scalar has the type of a hint that is not a union.

    An integer is a number too, unless it is too large for one; a boolean is not.
    """
    bare = strip_annotated(hint)
    if get_origin(bare) is Literal:
        return any(type(value) is type(word) and value == word for word in get_args(bare))
    return type(value) is bare or (bare is float and type(value) is int and abs(value) <= sys.float_info.max)


def misfit(value: Any, hint: Any) -> str | None:
    """Path of the first part of a plain value that is missing or of another type than its hint; None: all fit.

    Mappings may have more keys than a dataclass; the empty path is the value itself.
    """
    members, limits = unwrap_hint(hint)
    for member in members:
        bare = strip_annotated(member)
        if isinstance(value, dict) and dataclass_members(bare):
            required = {each.name for each in dataclasses.fields(bare) if default_of(each) is dataclasses.MISSING}
            parts = {name: inner for name, inner in field_types(bare).items() if name in required or name in value}
        elif isinstance(value, dict) and get_origin(bare) is dict:
            parts = dict.fromkeys(value, get_args(bare)[1])
        elif isinstance(value, list) and get_origin(bare) is list:
            value = dict(enumerate(value))
            parts = dict.fromkeys(value, get_args(bare)[0])
        else:
            continue
        for name, inner in parts.items():
            rest = "" if name not in value else misfit(value[name], inner)
            if rest is not None:
                return f"{name}.{rest}".rstrip(".")
        return None
    fits = any(has_type(value, each) and limit_problem(value, unwrap_hint(each).limits) is None for each in members)
    return None if fits and limit_problem(value, limits) is None else ""


def limit_problem(value: Any, limits: Iterable[Any]) -> str | None:
    """Requirement of the limits of a hint that a value misses; None: it is within them."""
    problems = (limit.problem(value) for limit in limits if isinstance(limit, Limits))
    return next((problem for problem in problems if problem is not None), None)


def describe_types(members: tuple[Any, ...]) -> str:
    """Expected value of a key in words, for messages."""
    names = {int: "an integer", float: "a number", str: "a string", bool: "true or false", Path: "a path"}
    words: list[str] = []
    kinds: list[str] = []
    keys: list[str] = []
    for member in (strip_annotated(member) for member in members):
        origin = get_origin(member)
        if dataclasses.is_dataclass(member):
            kinds.append(kind_of(member) or "")
            keys += [field.name for field in dataclasses.fields(member)]
        elif origin is Literal:
            words.append(" or ".join(json.dumps(word) for word in get_args(member)).replace('"', ""))
        elif origin in (list, tuple, Sequence):
            words.append("a list")
        elif origin is dict:
            words.append("a mapping")
        elif member is not type(None):
            words.append(names.get(member, str(member)))
    if kinds:
        listed = ", ".join(kind for kind in kinds if kind)
        few = f" ({', '.join(keys)})" if len(keys) <= MAX_LISTED_KEYS else ""
        words.append(f"a mapping with kind: {listed}" if listed else f"a mapping of keys{few}")
    return " or ".join(words)


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
    for path, _, _ in walk_keys(root):
        if (name := path.rpartition(".")[2]) != "kind":
            paths.setdefault(name, {})[path] = None
    return {name: tuple(found) for name, found in paths.items()}


def walk_keys(cls: Any, prefix: str = "", kind: str = "", depth: int = 0) -> Iterator[tuple[str, Any, str]]:
    """Keys of a configuration, depth first: path, type hint, and the kind of the innermost mapping that has one."""
    for name, hint in field_types(cls).items():
        yield prefix + name, hint, kind
        for member in dataclass_members(hint) if depth < MAX_DEPTH else ():
            yield from walk_keys(member, f"{prefix}{name}.", kind_of(member) or kind, depth + 1)


def has_path(root: Any, path: str, values: Mapping[str, Any] | None = None) -> bool:
    """Return whether a path names a key of a configuration.

    Args:
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
