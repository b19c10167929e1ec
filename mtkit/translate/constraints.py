"""Constraints of a user on the translation of one line: its prefix, texts to include, texts to exclude."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from mtkit.errors import DataError
from mtkit.text.subword.tokenizer import Tokenizer


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
    """

    text: str
    prefix: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    adapter: str = ""
    json_text: str = ""


Line = str | ConstrainedLine

# The time for a translation grows with the square of these; what is longer is refused, as it would take minutes.
MAX_PREFIX_TOKENS = 500
MAX_INCLUDED_TOKENS = 200
MAX_EXCLUDED_TEXTS = 200
MAX_QUOTED = 80  # characters of a text in a message


def as_plain(line: Line) -> list[Any]:
    """A line and everything that belongs to it, as values of JSON."""
    if isinstance(line, str):
        return [line, None, ""]
    return [line.text, (line.prefix, line.include, line.exclude, line.adapter), line.json_text]


@dataclass(frozen=True)
class TokenConstraints:
    """The constraints on a translation as ids; excluded texts as bytes, since they have many tokenizations."""

    prefix: tuple[int, ...] = ()
    include: tuple[tuple[int, ...], ...] = ()
    exclude: tuple[bytes, ...] = ()  # see Tokenizer.text_bytes

    @property
    def is_prefix_only(self) -> bool:
        """True if there are no other constraints than a prefix."""
        return not self.include and not self.exclude

    @property
    def min_length(self) -> int:
        """Number of tokens that a translation needs to meet the constraints."""
        return len(self.prefix) + sum(map(len, self.include))


class LineRequest(NamedTuple):
    """A line to translate, with the constraints on its translation."""

    text: str
    constraints: TokenConstraints | None = None


def text_of(line: Line | LineRequest) -> str:
    """The text to translate."""
    return line if isinstance(line, str) else line.text


def adapter_of(line: Line) -> str:
    """The name of the adapter that translates a line; empty: none."""
    return line.adapter if isinstance(line, ConstrainedLine) else ""


def tokenize_constraints(lines: Iterable[Line], first: int, tokenizer: Tokenizer) -> Iterator[LineRequest]:
    """Convert the constraints on each line to ids of the target side; lines are numbered from `first`.

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
            yield LineRequest(text_of(line))
        else:
            yield LineRequest(line.text, _tokenize(line, number, tokenizer))


def _tokenize(line: ConstrainedLine, number: int, tokenizer: Tokenizer) -> TokenConstraints:
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
    numbers = {
        "tokens in prefix": (len(ids[0]), MAX_PREFIX_TOKENS),
        "tokens in include": (sum(map(len, ids[1:])), MAX_INCLUDED_TOKENS),
        "texts in exclude": (len(excluded), MAX_EXCLUDED_TEXTS),
    }
    for name, (count, maximum) in numbers.items():
        if count > maximum:
            raise DataError(f"line {number}: {count:,} {name}; the maximum is {maximum}")
    return TokenConstraints(tuple(ids[0]), tuple(map(tuple, ids[1:])), tuple(excluded))


def _quote(text: str) -> str:
    return repr(text if len(text) <= MAX_QUOTED else text[: MAX_QUOTED - 3] + "...")
