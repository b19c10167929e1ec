"""What a user demands of the translation of one line: how it begins, what it contains, what it does not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from mtkit.errors import DataError
from mtkit.search.constraint import Constraint
from mtkit.search.forbidden import ForbiddenPhrases
from mtkit.search.forced_prefix import ForcedPrefix
from mtkit.search.request import Request, Symbols
from mtkit.search.required import RequiredPhrases
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


def text_of(line: Line) -> str:
    """The text to be translated."""
    return line if isinstance(line, str) else line.text


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
    """The demands on a line in pieces; what is excluded also as text, since there are many ways to segment it."""

    prefix: tuple[int, ...]
    include: tuple[tuple[int, ...], ...]
    exclude: tuple[tuple[int, ...], ...]
    texts: tuple[str, ...]  # excluded

    @property
    def least(self) -> int:
        """Pieces that a translation must have room for."""
        return len(self.prefix) + sum(map(len, self.include))

    def breaches(self, tokens: Sequence[int], tokenizer: Tokenizer) -> list[tuple[int, ...]]:
        """The shortest stretches of pieces that spell something excluded, one for each text that is there."""
        return [_stretch(tokens, text, tokenizer) for text in self.texts if text in tokenizer.decode([tokens])[0]]


def in_pieces(line: ConstrainedLine, number: int, tokenizer: Tokenizer) -> PieceDemands:
    """The demands of line `number` in pieces of the target side.

    Raises:
        DataError: they contradict each other, or hold characters that the vocabulary lacks.
    """
    for text in line.exclude:
        clash = [other for other in (line.prefix, *line.include) if text in other]
        if clash:
            raise DataError(f"line {number}: {clash[0]!r} is demanded and {text!r} in it is excluded")
    wanted = tokenizer.encode([line.prefix, *line.include])
    for text, ids in zip((line.prefix, *line.include), wanted, strict=True):
        if tokenizer.vocab.unk in ids:
            raise DataError(f"line {number}: {text!r} has characters that the vocabulary lacks")
    excluded = [ids for ids in tokenizer.encode(line.exclude) if tokenizer.vocab.unk not in ids]
    return PieceDemands(
        tuple(wanted[0]),
        tuple(map(tuple, wanted[1:])),
        tuple(map(tuple, excluded)),
        tuple(tokenizer.normalise(text) for text in line.exclude),
    )


def constrain(request: Request, demands: Sequence[PieceDemands | None], symbols: Symbols) -> Request:
    """The request with the demands on each of its sentences, and room for what they want."""
    given = [each or PieceDemands((), (), (), ()) for each in demands]
    least = torch.tensor([each.least for each in given], device=request.max_length.device)
    max_length = torch.maximum(request.max_length, least)
    constraints: list[Constraint] = [
        ForbiddenPhrases([each.exclude for each in given]),
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


def _stretch(tokens: Sequence[int], text: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The shortest stretch of the tokens whose text, after whatever is before it, contains `text`."""
    end = next(n for n in range(1, len(tokens) + 1) if text in tokenizer.decode([tokens[:n]])[0])
    starts = (n for n in range(end - 1, -1, -1) if text in tokenizer.decode([tokens[n:end]])[0])
    return tuple(tokens[next(starts, 0) : end])
