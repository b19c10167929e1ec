"""What a user demands of the translation of one line: how it begins, what it contains, what it does not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from mtkit.errors import DataError
from mtkit.search.constraints.constraint import Constraint
from mtkit.search.constraints.forbidden import ForbiddenTexts, Spellings
from mtkit.search.constraints.forced_prefix import ForcedPrefix
from mtkit.search.constraints.required import RequiredPhrases
from mtkit.search.interface import Request, Symbols
from mtkit.text.lines import read_lines
from mtkit.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class ConstrainedLine:
    """A line with demands on its translation; it is never split.

    Attributes:
        text: the line.
        prefix: how the translation begins.
        include: texts that it contains, as whole pieces.
        exclude: texts that it does not contain, not within words either.
    """

    text: str
    prefix: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


Line = str | ConstrainedLine


KEYS = ("prefix", "include", "exclude")


def with_constraints(lines: Iterable[str], path: Path) -> Iterator[Line]:
    """Lines with the demands of a file: for each line a JSON object with some of KEYS, or an empty line.

    Raises:
        DataError: a line of the file is not that, or the two have not equally many lines.
        MissingInputError, ReadWriteError: as `read_lines`.
    """
    demands = read_lines(path)
    number = 0
    for number, text in enumerate(lines, start=1):
        given = next(demands, None)
        if given is None:
            raise DataError(f"{path}: ends at line {number - 1}, the text does not; one line for each line of text")
        yield _parsed(text, given, f"{path}:{number}")
    if next(demands, None) is not None:
        raise DataError(f"{path}: has more lines than the text, which has {number}; one line for each line of text")


def _parsed(text: str, given: str, place: str) -> Line:
    if not given.strip():
        return text
    try:
        found = json.loads(given)
        json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair can be escaped, and is no text
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON, {_EXAMPLE} is: {given.strip()[:80]}") from error
    if not isinstance(found, dict) or not found.keys() <= set(KEYS):
        raise DataError(f"{place}: the keys are {', '.join(KEYS)}, as in {_EXAMPLE}, not {given.strip()[:80]}")
    lists = [found.get(key, []) for key in KEYS[1:]]
    prefix = found.get("prefix", "")
    if not isinstance(prefix, str) or not all(isinstance(each, list) and all(map(_is_text, each)) for each in lists):
        raise DataError(f"{place}: prefix must be a text, include and exclude lists of texts that are not empty")
    return ConstrainedLine(text=text, prefix=prefix, include=tuple(lists[0]), exclude=tuple(lists[1]))


_EXAMPLE = '{"prefix": "Das ist", "include": ["Haus", "rot"]}'


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


@dataclass(frozen=True)
class PieceDemands:
    """The demands on a line in pieces; what is excluded as bytes, since there are many ways to cut it into pieces."""

    prefix: tuple[int, ...] = ()
    include: tuple[tuple[int, ...], ...] = ()
    exclude: tuple[bytes, ...] = ()  # see Tokenizer.spelling

    @property
    def least(self) -> int:
        """Pieces that a translation must have room for."""
        return len(self.prefix) + sum(map(len, self.include))


class Asked(NamedTuple):
    """A line to translate, and the demands on its translation."""

    text: str
    demands: PieceDemands | None = None


def text_of(line: Line | Asked) -> str:
    """The text to be translated."""
    return line if isinstance(line, str) else line.text


def in_pieces(lines: Iterable[Line], first: int, tokenizer: Tokenizer) -> Iterator[Asked]:
    """Each line with the demands on it in pieces of the target side; lines are numbered from `first`.

    Raises:
        DataError: the demands on a line contradict each other, or hold characters that the vocabulary lacks.
    """
    for number, line in enumerate(lines, start=first):
        yield Asked(line) if isinstance(line, str) else Asked(line.text, _in_pieces(line, number, tokenizer))


def _in_pieces(line: ConstrainedLine, number: int, tokenizer: Tokenizer) -> PieceDemands:
    wanted = (line.prefix, *line.include)
    excluded = [tokenizer.spelling(text) for text in line.exclude]
    for text, spelled in zip(line.exclude, excluded, strict=True):
        clash = [other for other in wanted if spelled in tokenizer.spelling(other)]
        if clash:
            raise DataError(f"line {number}: {clash[0]!r} is demanded and {text!r} in it is excluded")
    ids = tokenizer.encode(wanted)
    for text, pieces in zip(wanted, ids, strict=True):
        if tokenizer.vocab.unk in pieces:
            raise DataError(f"line {number}: {text!r} has characters that the vocabulary lacks")
    return PieceDemands(tuple(ids[0]), tuple(map(tuple, ids[1:])), tuple(excluded))


def constrain(
    request: Request, demands: Sequence[PieceDemands | None], symbols: Symbols, spellings: Spellings
) -> Request:
    """The request with the demands on each of its sentences, and room for what they want."""
    given = [each or PieceDemands() for each in demands]
    least = torch.tensor([each.least for each in given], device=request.max_length.device)
    max_length = torch.maximum(request.max_length, least)
    constraints: list[Constraint] = [
        ForbiddenTexts([each.exclude for each in given], spellings),
        ForcedPrefix([each.prefix for each in given]),
    ]
    required = RequiredPhrases([each.include for each in given], max_length.tolist(), symbols)
    wanted = sorted({piece for each in given for phrase in (each.prefix, *each.include) for piece in phrase})
    columns = request.columns
    if columns is not None:
        columns = torch.unique(torch.cat([columns, torch.tensor(wanted, dtype=columns.dtype, device=columns.device)]))
    return replace(
        request,
        max_length=max_length,
        columns=columns,
        constraints=(*request.constraints, *constraints, required),
        selection=required if any(each.include for each in given) else None,
    )
