"""Reference of recipe keys, read from the dataclasses: type, range, default, and the comment above each field.

A comment states what the key means and, after `Default:`, why its default is what it is.

`mtkit keys` prints it; docs/recipe-keys.md is its Markdown form.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from mtkit.config import Limits
from mtkit.recipe.type_hints import MAX_DEPTH, default_of, field_types, kind_of, strip_annotated, unwrap_hint

WIDTH = 110  # characters of a line of text, at most


@dataclass(frozen=True)
class KeyInfo:
    """One key of a mapping; all fields are text for people.

    Attributes:
        default: the default as a recipe states it; `required` if there is none.
        reason: why the default is what it is; empty if there is none.
    """

    name: str
    type: str
    default: str
    meaning: str
    reason: str


@dataclass(frozen=True)
class KeyGroup:
    """Keys of one dataclass.

    Attributes:
        paths: of the mappings that it describes; an empty path is the whole recipe.
        kind: value of `kind:` that selects it; None if it has no kind.
        summary: first paragraph of its docstring.
    """

    paths: list[str]
    kind: str | None
    summary: str
    keys: Sequence[KeyInfo]

    @property
    def heading(self) -> str:
        """Paths and kind, such as `training.optimiser, kind: adam`."""
        return ", ".join([*self.paths, *([f"kind: {self.kind}"] if self.kind else [])])


def key_groups(root: Any) -> list[KeyGroup]:
    """Groups of all keys of a configuration, depth first; a dataclass that several keys share is listed once."""
    groups: dict[Any, KeyGroup] = {}
    for cls, path in _walk(root, "", 0):
        if cls not in groups:
            summary = " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())
            groups[cls] = KeyGroup([], kind_of(cls), summary, _keys(cls))
        if path not in groups[cls].paths:
            groups[cls].paths.append(path)
    return list(groups.values())


def _walk(cls: Any, path: str, depth: int) -> Iterator[tuple[Any, str]]:
    """All dataclasses with the paths where they occur; list items are called N, keys of the user's choice NAME."""
    yield cls, path
    for name, hint in field_types(cls).items() if depth < MAX_DEPTH else ():
        inner = f"{path}.{name}" if path else name
        for member, suffix in _dataclasses_in(hint):
            yield from _walk(member, inner + suffix, depth + 1)


def _dataclasses_in(hint: Any) -> Iterator[tuple[Any, str]]:
    """Dataclasses in a type hint, and what follows the key in their path."""
    for member in map(strip_annotated, unwrap_hint(hint).members):
        arguments = get_args(member)
        if dataclasses.is_dataclass(member) and field_types(member):  # type: ignore[arg-type]
            yield member, ""
        elif get_origin(member) is dict:
            yield from ((inner, f".NAME{suffix}") for inner, suffix in _dataclasses_in(arguments[1]))
        elif get_origin(member) in (list, Sequence):
            yield from ((inner, f".N{suffix}") for inner, suffix in _dataclasses_in(arguments[0]))


def _keys(cls: Any) -> list[KeyInfo]:
    comments = field_comments(cls)
    keys = []
    for field in dataclasses.fields(cls):
        if field.init and field.name != "kind":
            hint, default = field_types(cls)[field.name], default_of(field)
            meaning, _, reason = comments.get(field.name, "").partition(" Default: ")
            keys.append(KeyInfo(field.name, describe_hint(hint), format_default(default), meaning, reason))
    return keys


@cache
def field_comments(cls: Any) -> dict[str, str]:
    """Comments directly above each field; a base class's where there is none."""
    comments: dict[str, str] = {}
    for base in reversed([base for base in cls.__mro__ if "__dataclass_fields__" in vars(base)]):
        lines, _ = inspect.getsourcelines(base)
        source = textwrap.dedent("".join(lines))
        lines, body = source.split("\n"), ast.parse(source).body[0]
        for node in body.body if isinstance(body, ast.ClassDef) else ():
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                before = lines[node.lineno - 2 :: -1]
                above = list(itertools.takewhile(lambda line: line.lstrip().startswith("#"), before))
                comments |= {node.target.id: " ".join(line.lstrip("# ") for line in reversed(above))} if above else {}
    return comments


def describe_hint(hint: Any) -> str:
    """Type and range of a key in words, such as `integer > 0 or auto`."""
    members, limits = unwrap_hint(hint)
    kinds = [str(kind_of(strip_annotated(m))) for m in members if kind_of(strip_annotated(m)) is not None]
    words = [_describe_member(member, limits) for member in members if kind_of(strip_annotated(member)) is None]
    if kinds:
        words.insert(0, f"mapping with kind: {', '.join(kinds)}")
    return " or ".join(dict.fromkeys(words))


def _describe_member(member: Any, limits: Sequence[Any]) -> str:
    bare, own_limits = unwrap_hint(member)
    kind, arguments = bare[0], get_args(bare[0])
    names = {int: "integer", float: "number", str: "string", bool: "true or false", Path: "path", type(None): "null"}
    limits = [*own_limits, *limits]
    if get_origin(kind) is Literal:
        return " or ".join(str(word) for word in arguments)
    if get_origin(kind) in (list, Sequence):
        least = [limit.min_length for limit in limits if isinstance(limit, Limits) and limit.min_length is not None]
        return f"list of {describe_hint(arguments[0])}" + (f", at least {least[0]}" if least else "")
    if get_origin(kind) is tuple:
        return f"list of {len(arguments)}: {', '.join(map(describe_hint, arguments))}"
    if get_origin(kind) is dict:
        return f"mapping from names to {describe_hint(arguments[1])}"
    if kind in (int, float, str):
        return names[kind] + _describe_range(limits)
    return names.get(kind, "mapping")


def _describe_range(limits: Sequence[Any]) -> str:
    """` in [0, 1)`, ` > 0`; a pattern is described by its field's description."""
    low = high = ""
    for limit in (limit for limit in limits if isinstance(limit, Limits)):
        if limit.description:
            return f": {limit.description}"
        if limit.ge is not None:
            low = f"[{_format_bound(limit.ge)}"
        if limit.gt is not None:
            low = f"({_format_bound(limit.gt)}"
        if limit.le is not None:
            high = f"{_format_bound(limit.le)}]"
        if limit.lt is not None:
            high = f"{_format_bound(limit.lt)})"
    if low and high:
        return f" in {low}, {high}"
    if low:
        return f" {'>=' if low[0] == '[' else '>'} {low[1:]}"
    return f" {'<=' if high[-1] == ']' else '<'} {high[:-1]}" if high else ""


def _format_bound(bound: Any) -> str:
    if isinstance(bound, int) and bound > 2**31 and bound == 2 ** (bound.bit_length() - 1):
        return f"2^{bound.bit_length() - 1}"
    return str(bound)


def format_default(value: Any) -> str:
    """Default of a key as a recipe states it; `required` if there is none."""
    if value is dataclasses.MISSING:
        return "required"
    if dataclasses.is_dataclass(value):
        kind = kind_of(type(value))
        return f"{{kind: {kind}}}" if kind else "its defaults"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_default, value))}]"
    if isinstance(value, dict):
        return "{}"
    return str(value.value if isinstance(value, Enum) else value)


def select(groups: Sequence[KeyGroup], prefix: str) -> list[KeyGroup]:
    """Groups below a path, and the key at the path itself; each group keeps the matching path only."""
    selected = []
    for group in groups:
        for path in group.paths:
            keys = [key for key in group.keys if _is_below(f"{path}.{key.name}".lstrip("."), prefix)]
            if keys or (not group.keys and _is_below(path, prefix)):
                selected.append(dataclasses.replace(group, paths=[path], keys=keys))
                break
    return selected


def _is_below(path: str, prefix: str) -> bool:
    return not prefix or path == prefix or path.startswith(f"{prefix}.")


def as_text(groups: Sequence[KeyGroup]) -> Iterator[str]:
    """Lines for the terminal, as wide as it is: full paths, types, defaults, meanings and reasons."""
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 0)).columns)
    for group in groups:
        heading = f"{group.heading}: {group.summary}" if group.heading else group.summary
        yield from ["", *textwrap.wrap(heading, width)]
        for key in group.keys:
            path = f"{group.paths[0]}.{key.name}".lstrip(".")
            reason = f" Default: {key.reason}" if key.reason else ""
            entry = f"{path}: {key.type}; default: {key.default}. {key.meaning}{reason}"
            yield from textwrap.wrap(
                entry, width, initial_indent="  ", subsequent_indent="      ", break_long_words=False
            )


def as_markdown(groups: Sequence[KeyGroup]) -> str:
    """Text of docs/recipe-keys.md: a table for each group."""
    lines = [
        "# Recipe keys",
        "",
        "Every key of a recipe with its type and range, its default, its meaning and the reason of the default. This",
        "file is the output of `mtkit keys --markdown`; `mtkit keys PREFIX` lists a part. Each `kind` of a mapping has",
        "its own keys, and its name alone stands for it with its defaults: `schedule: cosine`.",
    ]
    for group in groups:
        title = ", ".join(f"`{path}`" for path in group.paths if path) or "Sections"
        kind = f", `kind: {group.kind}`" if group.kind else ""
        level = "##" if "." not in group.paths[0] else "###"
        lines += ["", f"{level} {title}{kind}", "", group.summary]
        if group.keys:
            lines += ["", "| key | type | default | meaning | reason of the default |", "|---|---|---|---|---|"]
        lines += [
            f"| `{key.name}` | {' | '.join(map(_cell, (key.type, f'`{key.default}`', key.meaning, key.reason)))} |"
            for key in group.keys
        ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")
