"""Strict YAML reader: the scalars of YAML 1.2's core schema, no duplicate keys, a line number for every value.

YAML 1.1, which PyYAML reads by default, turns the language code `no` into False and `1:30` into 90, and reads `1e-4` as
a string. https://yaml.org/spec/1.2.2/#103-core-schema
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import yaml

from mtkit.errors import RecipeError
from mtkit.io.files import translate_read_errors
from mtkit.recipe.located import COMMAND_LINE, INVALID, InvalidValue, LocatedValue, Origin

MAX_BYTES = 1 << 18  # of a file: PyYAML reads a megabyte of comments in a second, and one of values in twenty
MAX_VALUES = 10_000  # of a file, and of what its aliases, which can expand exponentially, stand for
MAX_DEPTH = 40
MAX_DIGITS = 40  # of a number, and of what is quoted in messages
MAX_KEY = 300  # characters


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
    count = depth = 0  # of the values read so far; of collections that are open

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a value, unless it is one too many or nested too deeply."""
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        self.count += 1
        if self.count > MAX_VALUES:
            raise yaml.MarkedYAMLError(problem=f"more than {MAX_VALUES:,} values", problem_mark=mark)
        if self.depth > MAX_DEPTH or self.flow_level > MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=f"more than {MAX_DEPTH} levels", problem_mark=mark)
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


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


def read_yaml(text: str, name: str, folder: Path, errors: list[str]) -> LocatedValue:
    """Read one YAML document.

    Args:
        folder: base of relative paths in the document.
        errors: collects the errors that do not stop the reader, such as duplicate keys and non-finite numbers.

    Raises:
        RecipeError: the text is not YAML, or it is empty.
    """
    node = _compose(text, name)
    if node is None:
        raise RecipeError(f"{name}: the file is empty")
    return _Reader(name, folder, errors, from_file=True).convert(node)


def read_value(text: str, key: str, folder: Path, errors: list[str]) -> LocatedValue:
    """Read the VALUE of the override `key=value` as YAML; an empty VALUE is null.

    Raises:
        RecipeError: the text is not YAML.
    """
    node = _compose(text, f"{COMMAND_LINE}: {key}")
    if node is None:
        return LocatedValue(None, Origin(COMMAND_LINE, folder, from_file=False))
    new_errors: list[str] = []
    value = _Reader(COMMAND_LINE, folder, new_errors, from_file=False).convert(node)
    errors.extend(error.replace(":", f": {key}:", 1) for error in new_errors)
    return value


def read_yaml_file(path: Path, errors: list[str]) -> LocatedValue:
    """Read the YAML file at `path`; `errors` as in `read_yaml`.

    Raises:
        RecipeError: the file is not YAML, is empty, or is not UTF-8.
        MissingInputError, ReadWriteError: as `translate_read_errors`.
    """
    with translate_read_errors(path), path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise RecipeError(f"{path}: more than {MAX_BYTES >> 10} KiB; is this a recipe?")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise RecipeError(f"{path}:{line}: byte {raw[error.start]:#04x} is not UTF-8") from error
    return read_yaml(text, str(path), path.absolute().parent, errors)


def _compose(text: str, name: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=StrictLoader)  # type: ignore[no-any-return, no-untyped-call, unused-ignore]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        raise RecipeError(f"{name}{line}: invalid YAML: {(error.problem or error.context or '')[:MAX_KEY]}") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{name}: invalid YAML: {' '.join(str(error).split())[:MAX_KEY]}") from error


@dataclass
class _Reader:
    """Converter from YAML nodes to `LocatedValue`s that collects errors."""

    name: str
    folder: Path
    errors: list[str]
    from_file: bool
    count: int = 0
    open_nodes: set[int] = field(default_factory=set)

    def convert(self, node: yaml.Node) -> LocatedValue:
        origin = Origin(self.location(node), self.folder, self.from_file)
        self.count += 1
        if id(node) in self.open_nodes:
            raise RecipeError(f"{origin.location}: a recursive alias")
        if self.count > MAX_VALUES or len(self.open_nodes) > MAX_DEPTH:
            raise RecipeError(f"{origin.location}: aliases of more than {MAX_VALUES:,} values or {MAX_DEPTH} levels")
        self.open_nodes.add(id(node))
        try:
            return LocatedValue(self.value(node), origin)
        finally:
            self.open_nodes.discard(id(node))

    def value(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode) and node.tag == _MAP:
            return dict(self.items(node))
        if isinstance(node, yaml.SequenceNode) and node.tag == _SEQ:
            return [self.convert(item) for item in node.value]
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        return self.error(node, f"the tag {node.tag[:MAX_KEY]} is not allowed in a recipe")

    def items(self, node: yaml.MappingNode) -> Iterator[tuple[str, LocatedValue]]:
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.error(key, "a key must be a scalar")
                continue
            name = str(key.value)  # not resolved as a number: a test set may be named 2016
            if len(name) > MAX_KEY:
                self.error(key, f"{name[:MAX_DIGITS]!r}...: a key of {len(name):,} characters")
                continue
            if name == "<<" and key.style is None:
                self.error(key, "merge keys (<<) are not supported; write the keys out, or name a file as base: FILE")
                continue
            if name in seen:
                self.error(key, f"{name}: duplicate key; first defined in line {seen[name]}")
                continue
            seen[name] = key.start_mark.line + 1
            converted = self.convert(value)
            yield name, LocatedValue(converted.value, Origin(self.location(key), self.folder, self.from_file))

    def scalar(self, node: yaml.ScalarNode) -> Any:
        text = str(node.value)
        tag = node.tag
        try:
            if tag == _NULL:
                return None
            if tag == _BOOL:
                return {"true": True, "false": False}[text.lower()]
            if tag in (_INT, _FLOAT) and len(text) > MAX_DIGITS:
                return self.error(node, f"a number of {len(text):,} characters; at most {MAX_DIGITS} are read")
            if tag == _INT:
                return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
            if tag == _FLOAT:
                number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
                return number if math.isfinite(number) else self.error(node, f"{text} is not a finite number")
        except (ValueError, KeyError):
            return self.error(node, f"{text[:MAX_DIGITS]!r} does not match its tag")
        return text if tag == _STR else self.error(node, f"the tag {tag[:MAX_KEY]} is not allowed in a recipe")

    def error(self, node: yaml.Node, message: str) -> InvalidValue:
        self.errors.append(f"{self.location(node)}: {message}")
        return INVALID

    def location(self, node: yaml.Node) -> str:
        return f"{self.name}:{node.start_mark.line + 1}" if self.from_file else self.name
