"""What the type of a recipe's key allows, taken apart."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints


class Hint(NamedTuple):
    """A type hint taken apart."""

    members: tuple[Any, ...]  # of a union, or the one type
    limits: tuple[Any, ...]  # what stood in Annotated around it


@cache
def fields_of(cls: Any) -> dict[str, Any]:
    """The type of each key of a dataclass."""
    hints = get_type_hints(cls, include_extras=True)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init}


def kind_of(cls: Any) -> str | None:
    """The word that stands for a dataclass behind `kind:`."""
    hints: dict[str, Any] = fields_of(cls) if dataclasses.is_dataclass(cls) else {}  # type: ignore[arg-type]
    hint = hints.get("kind")
    return None if hint is None else str(get_args(hint)[0])


def take_apart(hint: Any) -> Hint:
    """Look through Annotated and unions."""
    limits: tuple[Any, ...] = ()
    while get_origin(hint) is Annotated:
        hint, *more = get_args(hint)
        limits = (*limits, *more)
    if get_origin(hint) not in (Union, types.UnionType):
        return Hint((hint,), limits)
    members: list[Any] = []
    for member in get_args(hint):
        inner = take_apart(member)
        members.extend(inner.members if len(inner.members) > 1 else [member])
    return Hint(tuple(members), limits)


def bare(hint: Any) -> Any:
    """A type without what Annotated says about it."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def describe(members: tuple[Any, ...]) -> str:
    """What a key takes, in words."""
    names = {int: "an integer", float: "a number", str: "a text", bool: "true or false", Path: "a path"}
    words: list[str] = []
    kinds: list[str] = []
    for member in (bare(member) for member in members):
        origin = get_origin(member)
        if dataclasses.is_dataclass(member):
            kinds.append(kind_of(member) or "")
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
        words.append(f"a mapping with kind: {listed}" if listed else "a mapping of keys")
    return " or ".join(words)
