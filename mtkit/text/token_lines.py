"""Lines of text to lines of tokens or ids and back, one line for each line.

Tokens and ids are separated by single spaces. Tokens keep every line, also its unknown characters, each of which is a
token of its own; ids lose unknown characters.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mtkit.errors import DataError
from mtkit.text.normalise import count_unrepresentable
from mtkit.text.subword.tokenizer import Tokenizer

MAX_DIGITS = 18  # of an id; Python refuses to convert thousands of digits
BLOCK_LINES = 4096  # encoded together; the threads of sentencepiece need many lines


@dataclass
class UnknownCounts:
    """Counts of unknown tokens and replaced characters, updated line by line.

    Attributes:
        tokens: unknown tokens.
        replaced: characters that no model represents, see normalise.py.
    """

    lines: int = 0
    with_unknown: int = 0
    tokens: int = 0
    replaced: int = 0


def encode_lines(
    lines: Iterable[str], tokenizer: Tokenizer, *, as_ids: bool, counts: UnknownCounts, block: int = BLOCK_LINES
) -> Iterator[str]:
    """Encode lines; `block` lines are read before the first is written."""
    source = iter(lines)
    while batch := list(itertools.islice(source, block)):
        ids = tokenizer.encode(batch, threads=1)
        unknown = [tokens.count(tokenizer.vocab.unk) for tokens in ids]
        counts.lines += len(batch)
        counts.replaced += sum(map(count_unrepresentable, batch))
        counts.with_unknown += sum(count > 0 for count in unknown)
        counts.tokens += sum(unknown)
        if as_ids:
            yield from (" ".join(map(str, tokens)) for tokens in ids)
        else:
            joined = map(" ".join, tokenizer.encode_as_tokens(batch))
            # readers of text files drop a carriage return before the line end, but not one before a space
            yield from (line + " " if line.endswith("\r") else line for line in joined)


def decode_lines_of_tokens(lines: Iterable[str], tokenizer: Tokenizer, *, block: int = BLOCK_LINES) -> Iterator[str]:
    """Decode lines of tokens as `encode_lines` writes them; a line break in a token becomes a space."""
    source = iter(lines)
    while batch := list(itertools.islice(source, block)):
        texts = tokenizer.decode_tokens([[token for token in line.split(" ") if token] for line in batch])
        yield from (text.replace("\n", " ") for text in texts)


def decode_lines_of_ids(
    lines: Iterable[str], tokenizer: Tokenizer, name: str, *, block: int = BLOCK_LINES
) -> Iterator[str]:
    """Decode lines of ids; a line break in a token becomes a space.

    Raises:
        DataError: an id is not a number, or the vocabulary lacks it; names file and line.
    """
    source = enumerate(lines, start=1)
    while batch := list(itertools.islice(source, block)):
        ids = [_parse_ids(line, tokenizer.vocab.size, f"{name}:{number}") for number, line in batch]
        yield from (text.replace("\n", " ") for text in tokenizer.decode(ids))


def _parse_ids(line: str, size: int, location: str) -> list[int]:
    ids = []
    for word in filter(None, line.split(" ")):
        if not (word.isascii() and word.isdigit()):
            raise DataError(f"{location}: {word[:40]!r} is not an id; without --ids, decode reads tokens")
        digits = word.lstrip("0") or "0"
        if len(digits) > MAX_DIGITS or int(digits) >= size:
            raise DataError(f"{location}: id {digits[:40]} is not in the vocabulary, whose last id is {size - 1}")
        ids.append(int(digits))
    return ids
