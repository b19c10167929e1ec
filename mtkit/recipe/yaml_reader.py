"""YAML as a recipe needs it: the scalars of YAML 1.2's core schema, no surprises, and a line number for every value.

YAML 1.1, which PyYAML reads by default, turns the language code `no` into False, `1:30` into 90 and leaves `1e-4` a
string. https://yaml.org/spec/1.2.2/#103-core-schema
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml

from mtkit.errors import ReadWriteError, RecipeError

COMMAND_LINE = "command line"  # the place of an override
MOST_VALUES = 100_000  # an alias that holds aliases can grow without end


@dataclass(frozen=True)
class Origin:
    """Where a value was stated."""

    place: str  # "recipes/quickstart.yaml:14", or "command line"
    folder: Path  # what a relative path is relative to
    from_file: bool


@dataclass(frozen=True)
class Faulty:
    """Stands for a value that could not be read and has been reported."""


@dataclass
class Stated:
    """A value together with where it was stated: a scalar, a dict of `Stated`, or a list of `Stated`."""

    value: Any
    origin: Origin

    def plain(self) -> Any:
        """The value without its origins."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value


_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_BOOL = "tag:yaml.org,2002:bool"
_NULL = "tag:yaml.org,2002:null"
_STR = "tag:yaml.org,2002:str"
_MAP = "tag:yaml.org,2002:map"
_SEQ = "tag:yaml.org,2002:seq"


class StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalar resolution of YAML 1.2's core schema."""

    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}  # type: ignore[misc]


for _tag, _pattern in (
    (_NULL, r"(?:~|null|Null|NULL|)$"),
    (_BOOL, r"(?:true|True|TRUE|false|False|FALSE)$"),
    (_INT, r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"),
    (
        _FLOAT,
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
    ),
):
    StrictLoader.add_implicit_resolver(_tag, re.compile(_pattern), None)


def read_yaml(text: str, name: str, folder: Path, faults: list[str]) -> Stated:
    """Read one YAML document.

    Args:
        text: the document.
        name: the file's name as the user gave it, for messages.
        folder: what relative paths in it are relative to.
        faults: takes what is wrong but does not end the reading: keys that occur twice, numbers that are not finite.

    Raises:
        RecipeError: it is not YAML, or there is nothing in it.
    """
    node = _compose(text, name)
    if node is None:
        raise RecipeError(f"{name}: the file is empty")
    return _Reader(name, folder, faults, from_file=True).convert(node)


def read_value(text: str, key: str, folder: Path, faults: list[str]) -> Stated:
    """Read the VALUE of the override `key=value`, which is YAML too; nothing at all is null.

    Raises:
        RecipeError: as `read_yaml`.
    """
    node = _compose(text, f"{COMMAND_LINE}: {key}")
    if node is None:
        return Stated(None, Origin(COMMAND_LINE, folder, from_file=False))
    found: list[str] = []
    stated = _Reader(COMMAND_LINE, folder, found, from_file=False).convert(node)
    faults.extend(fault.replace(":", f": {key}:", 1) for fault in found)
    return stated


def read_yaml_file(path: Path, faults: list[str]) -> Stated:
    """Read the YAML file at `path`; `faults` as in `read_yaml`.

    Raises:
        RecipeError: as `read_yaml`, or it is not UTF-8.
        ReadWriteError: the operating system refuses to read it.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ReadWriteError(f"{path}: {error.strerror}") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise RecipeError(f"{path}:{line}: byte {raw[error.start]:#04x} is not UTF-8") from error
    return read_yaml(text, str(path), path.absolute().parent, faults)


def _compose(text: str, name: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=StrictLoader)  # type: ignore[no-any-return, no-untyped-call, unused-ignore]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        raise RecipeError(f"{name}{line}: not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{name}: not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise RecipeError(f"{name}: nested too deeply") from error


class _Reader:
    """Turns YAML nodes into `Stated` values and collects what is wrong with them."""

    def __init__(self, name: str, folder: Path, faults: list[str], *, from_file: bool) -> None:
        self.name = name
        self.folder = folder
        self.from_file = from_file
        self.faults = faults
        self.count = 0
        self.open: set[int] = set()

    def convert(self, node: yaml.Node) -> Stated:
        origin = Origin(self.place(node), self.folder, self.from_file)
        self.count += 1
        if id(node) in self.open or self.count > MOST_VALUES:
            raise RecipeError(f"{origin.place}: an alias that holds itself, or more than {MOST_VALUES:,} values")
        self.open.add(id(node))
        try:
            return Stated(self.value(node), origin)
        finally:
            self.open.discard(id(node))

    def value(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode) and node.tag == _MAP:
            return dict(self.items(node))
        if isinstance(node, yaml.SequenceNode) and node.tag == _SEQ:
            return [self.convert(item) for item in node.value]
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        return self.fault(node, f"the tag {node.tag} has no place in a recipe")

    def items(self, node: yaml.MappingNode) -> Iterator[tuple[str, Stated]]:
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.fault(key, "a key must be a word")
                continue
            name = str(key.value)  # as written: the test set 2016 is called "2016"
            if name in seen:
                self.fault(key, f"{name}: this key is already in line {seen[name]}")
                continue
            seen[name] = key.start_mark.line + 1
            stated = self.convert(value)
            yield name, Stated(stated.value, Origin(self.place(key), self.folder, self.from_file))

    def scalar(self, node: yaml.ScalarNode) -> Any:
        text = str(node.value)
        tag = node.tag
        try:
            if tag == _NULL:
                return None
            if tag == _BOOL:
                return {"true": True, "false": False}[text.lower()]
            if tag == _INT:
                return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
            if tag == _FLOAT:
                return self.finite(node, text)
        except (ValueError, KeyError):
            return self.fault(node, f"{text!r} is not what its tag says")
        return text if tag == _STR else self.fault(node, f"the tag {tag} has no place in a recipe")

    def finite(self, node: yaml.Node, text: str) -> float | Faulty:
        number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        return number if math.isfinite(number) else self.fault(node, f"{text} is not a finite number")

    def fault(self, node: yaml.Node, sentence: str) -> Faulty:
        self.faults.append(f"{self.place(node)}: {sentence}")
        return Faulty()

    def place(self, node: yaml.Node) -> str:
        return f"{self.name}:{node.start_mark.line + 1}" if self.from_file else self.name
