"""Plain values → frozen dataclasses, with every fault named by place, path and remedy.

The dataclasses say by their types what is allowed: nested dataclasses, lists, tuples and dicts of them, unions whose
members are told apart by `kind:` or, where none has one, by their keys, and leaves, whose types and ranges pydantic
checks in its strict mode (a boolean is no number, a number no text). Checks across keys are a dataclass's own, in
`__post_init__`: `ValueError("key: why")`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from mtkit.errors import RecipeError
from mtkit.recipe.type_hints import bare, describe, fields_of, kind_of, take_apart
from mtkit.recipe.yaml_reader import Faulty, Origin, Stated

MOST_FAULTS = 10  # an error is at most 12 lines


class _Wrong:
    """Stands for a value that could not be built."""


WRONG = _Wrong()


def close(word: str, known: Sequence[str]) -> str:
    """The end of a message about an unknown word: "; did you mean x?", or what is known."""
    match = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {match[0]}?" if match else f"; known here: {', '.join(known)}"


def build(cls: Any, stated: Stated, faults: Sequence[str] = ()) -> Any:
    """Build the dataclass `cls` from what is stated.

    Args:
        cls: the dataclass.
        stated: a mapping.
        faults: what is known to be wrong already.

    Raises:
        RecipeError: with all faults, one a line.
    """
    checker = Checker()
    checker.faults.extend(faults)
    result = checker.check(cls, stated, "", dataclasses.MISSING)
    if checker.faults:
        raise RecipeError(shorten(checker.faults))
    return result


def shorten(faults: Sequence[str]) -> str:
    """The faults one a line; of many the first ones and the count of the rest."""
    if len(faults) <= MOST_FAULTS:
        return "\n".join(faults)
    return "\n".join([*faults[:MOST_FAULTS], f"... and {len(faults) - MOST_FAULTS} more"])


class Checker:
    """Walks types and values together and collects the faults."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def fault(self, origin: Origin, path: str, sentence: str) -> _Wrong:
        """Note what is wrong at `path`."""
        self.faults.append(": ".join(part for part in (origin.place, path, sentence) if part))
        return WRONG

    def check(self, hint: Any, stated: Stated, path: str, default: Any) -> Any:
        """The value of type `hint`, or WRONG; `default` is what holds if nothing is stated."""
        if isinstance(stated.value, Faulty):
            return WRONG
        if hint is Stated:  # a part that is checked later, as what it is put into
            return stated
        members, limits = take_apart(hint)
        classes = [member for member in members if dataclasses.is_dataclass(member)]
        if isinstance(stated.value, dict) and classes:
            return self.one_of(classes, stated, path, default)
        for member in members:
            origin = get_origin(bare(member))
            if isinstance(stated.value, list) and origin in (list, tuple, Sequence):
                return self.items(member, stated, path, limits)
            if isinstance(stated.value, dict) and origin is dict:
                return self.entries(member, stated, path)
        if isinstance(stated.value, dict | list):
            return self.fault(stated.origin, path, f"{_short(stated.plain())} is not {describe(members)}")
        if len(classes) == len(members):
            return self.fault(stated.origin, path, _refusal([], stated.value, members))
        return self.leaf(hint, members, stated, path)

    def one_of(self, classes: list[Any], stated: Stated, path: str, default: Any) -> Any:
        """Choose by `kind` and build."""
        kinds = {kind_of(cls): cls for cls in classes}
        if len(classes) > 1 and kinds.keys() == {None}:  # told apart by their keys
            return self.record(min(classes, key=lambda cls: len(fields_of(cls).keys() ^ stated.value)), stated, path)
        stated_kind = stated.value.get("kind")
        if stated_kind is None or None in kinds:
            chosen = type(default) if type(default) in classes else classes[0]
            if len(classes) > 1 and type(default) not in classes:
                listed = ", ".join(str(kind) for kind in kinds)
                return self.fault(stated.origin, _join(path, "kind"), f"missing; the kinds are {listed}")
            return self.record(chosen, stated, path)
        if isinstance(stated_kind.value, Faulty):
            return WRONG
        if not isinstance(stated_kind.value, str) or stated_kind.value not in kinds:
            names = [str(kind) for kind in kinds]
            match = difflib.get_close_matches(str(stated_kind.value), names, n=1)
            hint = f"; did you mean {match[0]}?" if match else ""
            sentence = f"no such kind: {_short(stated_kind.plain())}{hint} (the kinds are {', '.join(names)})"
            return self.fault(stated_kind.origin, _join(path, "kind"), sentence)
        return self.record(kinds[stated_kind.value], stated, path)

    def record(self, cls: Any, stated: Stated, path: str) -> Any:
        """Build one dataclass from a mapping."""
        hints = fields_of(cls)
        count = len(self.faults)
        for key, value in stated.value.items():
            if key not in hints:
                of_kind = f" for kind {kind_of(cls)}" if kind_of(cls) else ""
                self.fault(value.origin, _join(path, key), f"no such key{of_kind}{close(key, list(hints))}")
        values = {}
        for field in dataclasses.fields(cls):
            if field.name in stated.value and field.init:
                values[field.name] = self.check(
                    hints[field.name], stated.value[field.name], _join(path, field.name), _default(field)
                )
            elif field.init and _default(field) is dataclasses.MISSING:
                self.fault(stated.origin, _join(path, field.name), "missing; this key has no default")
        if len(self.faults) > count or any(value is WRONG for value in values.values()):
            return WRONG
        try:
            return cls(**values)
        except ValueError as error:
            return self.refused(str(error), stated, path)

    def refused(self, message: str, stated: Stated, path: str) -> _Wrong:
        """Give a dataclass's own objection, "key: sentence", the key's place."""
        key, colon, sentence = message.partition(": ")
        origin = stated.origin
        inner: Any = stated
        for part in key.split(".") if colon else []:
            inner = _inside(inner, part)
            if inner is None:
                break
            origin = inner.origin
        if colon and " " not in key:
            return self.fault(origin, _join(path, key), sentence)
        return self.fault(origin, path, message)

    def items(self, hint: Any, stated: Stated, path: str, limits: tuple[Any, ...]) -> Any:
        """A list, or a tuple of one or several types."""
        inner = get_args(bare(hint))
        fixed = get_origin(bare(hint)) is tuple and inner[-1] is not Ellipsis
        if fixed and len(inner) != len(stated.value):
            return self.fault(stated.origin, path, f"{len(stated.value)} items where {len(inner)} are expected")
        kinds = inner if fixed else (inner[0],) * len(stated.value)
        values = [
            self.check(kind, item, _join(path, str(number)), dataclasses.MISSING)
            for number, (kind, item) in enumerate(zip(kinds, stated.value, strict=True))
        ]
        limits = limits or (get_args(hint)[1:] if get_origin(hint) is Annotated else ())
        if any(value is WRONG for value in values):
            return WRONG
        if limits:
            self.within(Annotated[list[Any], *limits], values, stated, path)
        return tuple(values) if get_origin(bare(hint)) is tuple else values

    def within(self, hint: Any, value: Any, stated: Stated, path: str) -> None:
        """Check the length of a list, or a key of the user's."""
        try:
            _adapter(hint).validate_python(value)
        except ValidationError as error:
            limits = take_apart(hint).limits
            self.fault(stated.origin, path, "; ".join(_in_words(each, limits) for each in error.errors()))

    def entries(self, hint: Any, stated: Stated, path: str) -> Any:
        """A mapping whose keys the user chooses."""
        key_hint, inner = get_args(bare(hint))
        values = {}
        for key, item in stated.value.items():
            self.within(key_hint, key, item, _join(path, key))
            values[key] = self.check(inner, item, _join(path, key), dataclasses.MISSING)
        return WRONG if any(value is WRONG for value in values.values()) else values

    def leaf(self, hint: Any, members: tuple[Any, ...], stated: Stated, path: str) -> Any:
        """A scalar; a path becomes absolute."""
        value = stated.value
        if isinstance(value, str) and any(bare(member) is Path for member in members):
            try:
                return (stated.origin.folder / os.path.expanduser(value)).resolve()
            except ValueError:  # a NUL in it
                return self.fault(stated.origin, path, f"{_short(value)} cannot be a path")
        leaves = tuple(member for member in members if not dataclasses.is_dataclass(member))
        scalar = hint if leaves == members else functools.reduce(operator.or_, leaves)
        try:
            return _adapter(scalar).validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            limits = take_apart(hint).limits
            return self.fault(stated.origin, path, _refusal(error.errors(), value, members, limits))


def _refusal(errors: Sequence[Any], value: Any, members: tuple[Any, ...], limits: tuple[Any, ...] = ()) -> str:
    """Why a leaf is wrong, in a sentence; `errors` are pydantic's, `limits` what stood in Annotated."""
    ranges = [each for each in errors if not each["type"].endswith(("_type", "_parsing", "error", "from_float"))]
    if ranges:
        return f"{_short(value)}: {_in_words(ranges[0], limits)}"
    words = [str(word) for member in members if get_origin(bare(member)) is Literal for word in get_args(bare(member))]
    match = difflib.get_close_matches(value, words, n=1) if isinstance(value, str) else []
    kinds = [kind_of(member) for member in members if dataclasses.is_dataclass(member)]
    if match:
        hint = f"; did you mean {match[0]}?"
    elif value in kinds:
        hint = f"; write {{kind: {value}}}"
    elif str in members and isinstance(value, bool | int | float):
        hint = "; write it in quotes"
    else:
        hint = ""
    return f"{_short(value)} is not {describe(members)}{hint}"


def _in_words(error: Any, limits: tuple[Any, ...]) -> str:
    """What one of pydantic's errors asks for; a pattern says it by its field's description."""
    described = [limit.description for limit in limits if isinstance(limit, FieldInfo) and limit.description]
    if error["type"] == "string_pattern_mismatch" and described:
        return f"must be {described[0]}"
    text = str(error["msg"]).replace("Input should be", "must be").replace(" after validation", "")
    return text.replace("List should", "must").replace("String should", "must")


@functools.cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint, config=ConfigDict(strict=True))


def _inside(stated: Stated, part: str) -> Stated | None:
    """What is stated under a key, or as an item of that number."""
    if isinstance(stated.value, dict) and part in stated.value:
        return cast(Stated, stated.value[part])
    if isinstance(stated.value, list) and part.isdigit() and int(part) < len(stated.value):
        return cast(Stated, stated.value[int(part)])
    return None


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str) if not isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
