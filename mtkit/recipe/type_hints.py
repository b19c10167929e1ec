"""Type hints of configuration dataclasses: union members, limits, and a description for messages."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

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
