"""Source lines that come with more than their text: JSON lines, a file of constraints, a prefix for all lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from mtkit.errors import DataError
from mtkit.io.json_text import reject_constant
from mtkit.text.lines import read_lines
from mtkit.translate.constraints import ConstrainedLine, Line
from mtkit.translate.translation import Translation

KEYS = ("prefix", "include", "exclude")
MAX_QUOTED = 80  # characters of a line in a message
_CONSTRAINTS_EXAMPLE = '{"prefix": "Das ist", "include": ["Haus", "rot"]}'
_LINE_EXAMPLE = '{"text": "The house is red.", "id": 7}'
_OUTPUT_FIELDS = frozenset(each.name for each in fields(Translation))


def parse_json_lines(lines: Iterable[str], name: str) -> Iterator[Line]:
    """Lines to translate from JSON objects: "text", perhaps some of KEYS and "adapter", and fields that are copied.

    An empty line is a blank line to translate.

    Args:
        lines: JSON objects, one a line.
        name: name of the input in error messages.

    Raises:
        DataError: a line has another form, or a field with the name of one of the output.
    """
    for number, line in enumerate(lines, start=1):
        place = f"{name}:{number}"
        if not line.strip():
            yield ""
            continue
        record = _parse_object(line, place, _LINE_EXAMPLE)
        text = record.get("text")
        if not isinstance(text, str):
            raise DataError(f'{place}: needs a "text", as in {_LINE_EXAMPLE}, not {line.strip()[:MAX_QUOTED]}')
        if clashes := sorted(_OUTPUT_FIELDS & record.keys()):
            raise DataError(f"{place}: the output has a field {clashes[0]} too; rename the field of the input")
        if not isinstance(adapter := record.get("adapter", ""), str):
            raise DataError(f"{place}: adapter must be a string, the NAME of --adapter NAME=FOLDER")
        yield replace(_constrained(text, record, place), adapter=adapter, json_text=line)


def json_note(lines: Iterable[str], name: str, report: Callable[[str], None]) -> Iterator[str]:
    """The lines as they are; `report` is called with a sentence if the first one is a JSON object with a "text"."""
    for number, line in enumerate(lines):
        if number == 0 and line.lstrip().startswith("{") and _has_text(line):
            report(f'{name}: JSON lines are translated as text here; --jsonl-input translates the "text" of each')
        yield line


def _has_text(line: str) -> bool:
    try:
        return isinstance(_parse_object(line, "", _LINE_EXAMPLE).get("text"), str)
    except DataError:
        return False


def with_constraints(lines: Iterable[str], path: Path) -> Iterator[Line]:
    """Join lines with the constraints of a file: for each line a JSON object with some of KEYS, or an empty line.

    Raises:
        DataError: a line of the file has another form, or the numbers of lines differ.
        MissingInputError, ReadWriteError: as `read_lines`.
    """
    entries = read_lines(path)
    number = 0
    for number, text in enumerate(lines, start=1):
        entry = next(entries, None)
        if entry is None:
            raise DataError(f"{path}: ends at line {number - 1}, before the text; write one line for each line of text")
        place = f"{path}:{number}"
        record = _parse_object(entry, place, _CONSTRAINTS_EXAMPLE) if entry.strip() else {}
        if not record.keys() <= set(KEYS):
            names = ", ".join(KEYS)
            raise DataError(
                f"{place}: the keys are {names}, as in {_CONSTRAINTS_EXAMPLE}, not {entry.strip()[:MAX_QUOTED]}"
            )
        yield _constrained(text, record, place) if record else text
    if next(entries, None) is not None:
        raise DataError(f"{path}: has more lines than the text ({number}); write one line for each line of text")


def with_prefix(lines: Iterable[Line], prefix: str) -> Iterator[Line]:
    """The lines with this beginning of the translation, except those that have one of their own."""
    for line in lines:
        constrained = ConstrainedLine(text=line) if isinstance(line, str) else line
        yield constrained if constrained.prefix else replace(constrained, prefix=prefix)


def _parse_object(line: str, place: str, example: str) -> dict[str, Any]:
    """Parse a JSON object of which only texts are used; its numbers are None, since Python cannot read all of them.

    Raises:
        DataError: it is not a JSON object, or "text", "adapter" or one of KEYS has half of a surrogate pair, which
            JSON can escape.
    """
    try:
        value = json.loads(line, parse_int=_no_number, parse_float=_no_number, parse_constant=reject_constant)
    except RecursionError as error:
        raise DataError(f"{place}: JSON that is nested too deeply") from error
    except ValueError as error:
        raise DataError(f"{place}: not JSON: {line.strip()[:MAX_QUOTED]}; an example: {example}") from error
    if not isinstance(value, dict):
        raise DataError(f"{place}: not a JSON object: {line.strip()[:MAX_QUOTED]}; an example: {example}")
    try:
        json.dumps([value.get(key) for key in ("text", "adapter", *KEYS)], ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: half of a surrogate pair in a text: {line.strip()[:MAX_QUOTED]}") from error
    return value


def _no_number(digits: str) -> None:
    return None


def _constrained(text: str, record: Mapping[str, Any], place: str) -> ConstrainedLine:
    """A line with the constraints of a JSON object.

    Raises:
        DataError: a constraint has a wrong type.
    """
    prefix = record.get("prefix", "")
    include, exclude = (record.get(key, []) for key in KEYS[1:])
    if not (isinstance(prefix, str) and _is_text_list(include) and _is_text_list(exclude)):
        raise DataError(f"{place}: prefix must be a string, include and exclude lists of non-blank strings")
    return ConstrainedLine(text=text, prefix=prefix, include=tuple(include), exclude=tuple(exclude))


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value)
