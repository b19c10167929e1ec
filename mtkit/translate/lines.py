"""Lines to translate: constraints of a user on their translations, JSON lines, windows in which lines are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from mtkit.errors import DataError, MtkitError
from mtkit.io.json_text import reject_constant
from mtkit.search.hypothesis import SentenceRequest
from mtkit.text.lines import read_lines
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.translate.translation import Translation, TranslationOptions

UNCONSTRAINED = SentenceRequest(source=(), max_length=0)


@dataclass(frozen=True, kw_only=True)
class ConstrainedLine:
    """A line with constraints on its translation. It is not split if texts are included or excluded.

    White space at the ends of the prefix and of included texts is ignored: translations have none there.

    Attributes:
        text: the line.
        prefix: the beginning of the translation; empty: none.
        include: texts that the translation must contain, as whole tokens.
        exclude: texts that the translation must not contain, not within words either.
        adapter: name of the adapter that translates it (AdaptedTranslators); empty: none.
        json_text: the JSON object that the line was read from, for the output; empty if it was text.
        request: the constraints as ids of the model, see `tokenize_constraints`.
    """

    text: str
    prefix: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    adapter: str = ""
    json_text: str = ""
    request: SentenceRequest = UNCONSTRAINED


Line = str | ConstrainedLine

# Longer lines are cut into chunks, which are split one after the other: sentencepiece needs 200 bytes a character.
MAX_CHUNK = 1 << 16  # characters

# The time for a translation grows with the square of these; what is longer is refused, as it would take minutes.
MAX_PREFIX_TOKENS = 500
MAX_INCLUDED_TOKENS = 200
MAX_EXCLUDED_TEXTS = 200
MAX_QUOTED = 80  # characters of a text in a message


def text_of(line: Line) -> str:
    """The text to translate."""
    return line if isinstance(line, str) else line.text


def adapter_of(line: Line) -> str:
    """The name of the adapter that translates a line; empty: none."""
    return line.adapter if isinstance(line, ConstrainedLine) else ""


def tokenize_constraints(lines: Iterable[Line], first: int, tokenizer: Tokenizer) -> Iterator[Line]:
    """The lines with their constraints as ids of the target side, or as text alone; they are numbered from `first`.

    Raises:
        DataError: the constraints on a line contradict each other, are too long, or contain characters that the
            vocabulary lacks; or a line names an adapter, which AdaptedTranslators would have taken.
        TypeError: a line is no text.
    """
    for number, line in enumerate(lines, start=first):
        if not isinstance(line, str | ConstrainedLine):
            raise TypeError(f"line {number}: a str is expected, not {type(line).__name__}")
        if name := adapter_of(line):
            remedy = "name its folder by --adapter NAME=FOLDER"
            raise DataError(f"line {number}: adapter {name[:MAX_QUOTED]!r}: unknown; {remedy}")
        if isinstance(line, str) or not (line.prefix or line.include or line.exclude):
            yield text_of(line)
        else:
            yield replace(line, request=_tokenize(line, number, tokenizer))


def _tokenize(line: ConstrainedLine, number: int, tokenizer: Tokenizer) -> SentenceRequest:
    """A request without source that has the constraints, and the tokens that they need as its maximum length."""
    if any(not text.strip() for text in (*line.include, *line.exclude, *([line.prefix] if line.prefix else []))):
        raise DataError(f"line {number}: a blank text in prefix, include or exclude; omit it")
    required = (line.prefix.strip(), *(text.strip() for text in line.include))
    excluded = [tokenizer.text_bytes(text) for text in line.exclude]
    for text, text_bytes in zip(line.exclude, excluded, strict=True):
        for other in required:
            if text_bytes in tokenizer.text_bytes(other):
                raise DataError(
                    f"line {number}: {_quote(other)} must appear but contains {_quote(text)}, which is excluded; omit "
                    "one of them"
                )
    ids = tokenizer.encode(required)
    for i, (text, token_ids) in enumerate(zip(required, ids, strict=True)):
        if tokenizer.vocab.unk in token_ids:
            key = "include" if i else "prefix"
            raise DataError(
                f"line {number}: {key}: {_quote(text)} contains characters that the vocabulary lacks; write it without "
                "them, or omit it"
            )
    prefix, *include = ids
    numbers = {
        "tokens in prefix": (len(prefix), MAX_PREFIX_TOKENS),
        "tokens in include": (sum(map(len, include)), MAX_INCLUDED_TOKENS),
        "texts in exclude": (len(excluded), MAX_EXCLUDED_TEXTS),
    }
    for name, (count, maximum) in numbers.items():
        if count > maximum:
            raise DataError(f"line {number}: {count:,} {name}; the maximum is {maximum}")
    return SentenceRequest(source=(), max_length=sum(map(len, ids)), prefix=prefix, include=include, exclude=excluded)


def _quote(text: str) -> str:
    return repr(text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 3] + "...")


def read_windows(lines: Iterable[Line], options: TranslationOptions) -> Iterator[tuple[list[Line], MtkitError | None]]:
    """Read lines in windows, to be sorted by length; the last one comes with the error that ended the reading.

    A line of more than MAX_CHUNK characters is a window of its own, so that the lines before it need not wait for it.
    """
    max_lines = min(options.window, options.flush_every or options.window)
    window: list[Line] = []
    characters = 0
    try:
        for line in lines:
            length = len(text_of(line))
            if length > MAX_CHUNK and window:
                yield window, None
                window, characters = [], 0
            window.append(line)
            characters += length
            if len(window) == max_lines or characters >= options.window_characters or length > MAX_CHUNK:
                yield window, None
                window, characters = [], 0
    except MtkitError as error:
        yield window, error
        return
    if window:
        yield window, None


KEYS = ("prefix", "include", "exclude")
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
        text = None
        if number == 0:
            with suppress(DataError):
                text = _parse_object(line, "", _LINE_EXAMPLE).get("text")
        if isinstance(text, str):
            report(f'{name}: JSON lines are translated as text here; --jsonl-input translates the "text" of each')
        yield line


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
    """The lines with this beginning of the translation, except those that state one."""
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
