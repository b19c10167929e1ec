"""Schema: values → frozen dataclasses; every error has a location, a path and a remedy.

The types of the dataclasses define what is allowed: nested dataclasses; lists, tuples and dicts of them; unions whose
members are selected by `kind:` or, if no member has a kind, by their keys; and scalars within their `Limits`. Where a
mapping is expected, a word is its kind, `cosine` for `{kind: cosine}`, and a number is the key that its class names as
`number_key`, `60` for `{max: 60}`. Types are strict: a boolean is not a number, a number is not a string. A dataclass
checks conditions across its keys in `__post_init__` and raises `ValueError("key: problem; remedy")`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from mtkit.errors import RecipeError
from mtkit.recipe.located import COMMAND_LINE, INVALID, InvalidValue, LocatedValue, Origin
from mtkit.recipe.paths import expand_path
from mtkit.recipe.suggestions import suggest_key, suggest_kind
from mtkit.recipe.type_hints import (
    default_of,
    describe_types,
    field_types,
    has_type,
    kind_of,
    limit_problem,
    strip_annotated,
    unwrap_hint,
)
from mtkit.text.corpora import named_corpus


def build(
    cls: Any,
    value: LocatedValue,
    errors: Sequence[str] = (),
    conditions: Callable[[Any], Iterable[str]] = lambda built: (),
) -> Any:
    """Build a dataclass from a mapping.

    Args:
        cls: the dataclass.
        value: the mapping.
        errors: found so far, reported together with new ones.
        conditions: returns "key: message" for each condition that the dataclass violates.

    Raises:
        RecipeError: there are errors; the message has one line for each.
    """
    checker = Checker(cls, value)
    checker.errors.extend(errors)
    result = checker.check(cls, value, "", dataclasses.MISSING)
    for message in () if result is INVALID else conditions(result):
        checker.cross_field_error(message, value, "")
    if checker.errors:
        raise RecipeError("\n".join(checker.errors))
    return result


class Checker:
    """Recursive descent over types and values that builds dataclasses and collects errors.

    Attributes:
        root: the dataclass of the whole configuration, in which suggestions are looked up.
        values: the whole configuration, to know the kinds that it selects.
        errors: "location: path: message" each.
    """

    def __init__(self, root: Any, values: LocatedValue) -> None:
        self.root = root
        self.values = values
        self.errors: list[str] = []

    def error(self, origin: Origin, path: str, message: str) -> InvalidValue:
        """Record an error at `path`."""
        self.errors.append(": ".join(part for part in (origin.location, path, message) if part))
        return INVALID

    def check(self, hint: Any, located: LocatedValue, path: str, default: Any) -> Any:
        """Build a value of type `hint`.

        Args:
            hint: the type.
            located: the value.
            path: of the key, for messages.
            default: of the key; it selects the kind if none is given. MISSING: no default.

        Returns:
            The value, or INVALID after recording an error.
        """
        if located.value is INVALID:
            return INVALID
        if hint is LocatedValue:  # a section of a study, checked after merging
            return located
        members, limits = unwrap_hint(hint)
        classes = [member for member in members if dataclasses.is_dataclass(member)]
        expand(located, classes, members)
        if isinstance(located.value, dict) and classes:
            return self.union(classes, located, path, default)
        for member in members:
            origin = get_origin(strip_annotated(member))
            if isinstance(located.value, list) and origin in (list, tuple, Sequence):
                return self.sequence(member, located, path, limits)
            if isinstance(located.value, dict) and origin is dict:
                return self.mapping(member, located, path)
        if isinstance(located.value, dict | list):
            return self.error(
                located.origin, path, f"{_abbreviate(located.to_plain())} is not {describe_types(members)}"
            )
        if len(classes) == len(members):
            return self.error(located.origin, path, _type_error(located, path, members))
        return self.scalar(members, limits, located, path)

    def union(self, classes: list[Any], located: LocatedValue, path: str, default: Any) -> Any:
        """Select the member of a union by `kind` and build it."""
        kinds = {kind_of(cls): cls for cls in classes}
        if len(classes) > 1 and kinds.keys() == {None}:  # selected by its keys
            stated = located.value.keys()
            fields = {cls: field_types(cls).keys() for cls in classes}
            chosen = min(classes, key=lambda cls: (len(stated - fields[cls]), len(fields[cls] - stated)))
            return self.record(chosen, located, path)
        located_kind = located.value.get("kind")
        if located_kind is None or None in kinds:
            chosen = type(default) if type(default) in classes else classes[0]
            if len(classes) > 1 and type(default) not in classes:
                listed = ", ".join(str(kind) for kind in kinds)
                return self.error(located.origin, _join(path, "kind"), f"missing; the kinds are {listed}")
            return self.record(chosen, located, path, classes)
        if located_kind.value is INVALID:
            return INVALID
        if not isinstance(located_kind.value, str) or located_kind.value not in kinds:
            names = [str(kind) for kind in kinds]
            hint = suggest_kind(str(located_kind.value), names, path)
            message = f"no such kind: {_abbreviate(located_kind.to_plain())}{hint} (the kinds are {', '.join(names)})"
            return self.error(located_kind.origin, _join(path, "kind"), message)
        return self.record(kinds[located_kind.value], located, path, classes)

    def record(self, cls: Any, located: LocatedValue, path: str, union: Sequence[Any] = ()) -> Any:
        """Build one dataclass, a member of `union` if that is not empty, from a mapping."""
        hints = field_types(cls)
        count = len(self.errors)
        for key, value in located.value.items():
            if key not in hints:
                kind, in_file = kind_of(cls), value.origin.location != COMMAND_LINE
                others = [
                    str(kind_of(other)) for other in union if kind_of(other) != kind and key in field_types(other)
                ]
                place, stated = _join(path, key), self.values.to_plain()
                hint = suggest_key(place, self.root, stated, list(hints), " or ".join(others), in_file=in_file)
                self.error(value.origin, place, f"no such key{f' for kind {kind}' if kind else ''}{hint}")
        values = {}
        for field in dataclasses.fields(cls):
            if field.name in located.value and field.init:
                values[field.name] = self.check(
                    hints[field.name], located.value[field.name], _join(path, field.name), default_of(field)
                )
            elif field.init and default_of(field) is dataclasses.MISSING:
                self.error(located.origin, _join(path, field.name), "missing; this key has no default")
        if len(self.errors) > count or any(value is INVALID for value in values.values()):
            return INVALID
        try:
            return cls(**values)
        except ValueError as error:
            return self.cross_field_error(str(error), located, path)

    def cross_field_error(self, message: str, located: LocatedValue, path: str) -> InvalidValue:
        """Record a dataclass's own error, "key: message", at the location of the key."""
        key, colon, rest = message.partition(": ")
        for part in key.split(".") if colon else []:
            items = located.value if isinstance(located.value, dict | list) else []
            inner = items if isinstance(items, dict) else {str(number): item for number, item in enumerate(items)}
            if part not in inner:
                break
            located = inner[part]
        if colon and " " not in key:
            return self.error(located.origin, _join(path, key), rest)
        return self.error(located.origin, path, message)

    def sequence(self, hint: Any, located: LocatedValue, path: str, limits: tuple[Any, ...]) -> Any:
        """Build a list, or a tuple of one or several types."""
        inner = get_args(strip_annotated(hint))
        fixed = get_origin(strip_annotated(hint)) is tuple and inner[-1] is not Ellipsis
        if fixed and len(inner) != len(located.value):
            return self.error(located.origin, path, f"{len(located.value)} items where {len(inner)} are expected")
        kinds = inner if fixed else (inner[0],) * len(located.value)
        values = [
            self.check(kind, item, _join(path, str(number)), dataclasses.MISSING)
            for number, (kind, item) in enumerate(zip(kinds, located.value, strict=True))
        ]
        if any(value is INVALID for value in values):
            return INVALID
        problem = limit_problem(values, limits or unwrap_hint(hint).limits)
        if problem is not None:
            return self.error(located.origin, path, problem)
        return tuple(values) if get_origin(strip_annotated(hint)) is tuple else values

    def mapping(self, hint: Any, located: LocatedValue, path: str) -> Any:
        """Build a mapping with keys of the user's choice."""
        key_hint, inner = get_args(strip_annotated(hint))
        values = {}
        for key, item in located.value.items():
            if (problem := limit_problem(key, unwrap_hint(key_hint).limits)) is not None:
                self.error(item.origin, _join(path, key), problem)
            values[key] = self.check(inner, item, _join(path, key), dataclasses.MISSING)
        return INVALID if any(value is INVALID for value in values.values()) else values

    def scalar(self, members: tuple[Any, ...], limits: tuple[Any, ...], located: LocatedValue, path: str) -> Any:
        """Build a scalar; a path becomes absolute."""
        value = located.value
        if isinstance(value, str) and any(strip_annotated(member) is Path for member in members):
            if named_corpus(value) is not None:
                return Path(value)
            try:
                return (located.origin.folder / expand_path(value)).resolve()
            except ValueError as error:
                return self.error(located.origin, path, str(error))
        # a number in a recipe is first of all what it is: 3 is an integer where both are allowed
        fitting = [member for member in members if has_type(value, member)]
        fitting.sort(key=lambda member: strip_annotated(member) is float)
        problems = [limit_problem(value, (*unwrap_hint(member).limits, *limits)) for member in fitting]
        if None in problems:
            is_float = strip_annotated(fitting[problems.index(None)]) is float
            return float(value) if is_float else value
        message = f"{_abbreviate(value)}: {problems[0]}" if problems else _type_error(located, path, members)
        return self.error(located.origin, path, message)


def expand(located: LocatedValue, classes: Sequence[Any], members: Sequence[Any]) -> None:
    """Turn a word into `{kind: WORD}`, and a number into the mapping of the class that has a key for it, in place.

    Nothing changes where the type has words, paths or numbers as well.
    """
    value, origin = located.value, located.origin
    others = [strip_annotated(member) for member in members if member not in classes]
    words = any(each in (str, Path) or get_origin(each) is Literal for each in others)
    if isinstance(value, str) and classes and all(map(kind_of, classes)) and not words:
        located.value = {"kind": LocatedValue(value, origin)}
    if isinstance(value, int | float) and not isinstance(value, bool) and not {int, float} & {*others}:
        for cls in (each for each in classes if hasattr(each, "number_key")):
            kind = {} if kind_of(cls) is None else {"kind": LocatedValue(kind_of(cls), origin)}
            located.value = {**kind, cls.number_key: LocatedValue(value, origin)}


def _type_error(located: LocatedValue, path: str, members: tuple[Any, ...]) -> str:
    """Message about a scalar that is of none of the types of a key's union."""
    value = located.value
    words = [
        str(word)
        for member in members
        if get_origin(strip_annotated(member)) is Literal
        for word in get_args(strip_annotated(member))
    ]
    if str in members and isinstance(value, bool | int | float):
        hint = "; write it in quotes" if located.origin.from_file else f"""; write {path}='"{json.dumps(value)}"'"""
    else:
        hint = suggest_kind(value, words, path) if isinstance(value, str) else ""
    return f"{_abbreviate(value)} is not {describe_types(members)}{hint}"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _abbreviate(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str) if not isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
