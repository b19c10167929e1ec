"""Word vectors from text files, found for the pieces of a vocabulary.

The format is that of word2vec (Mikolov et al. 2013): a line `WORDS NUMBERS`, which may be missing (GloVe), then a word
and its numbers on each line, with single spaces between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import DataError
from mtkit.text.lines import read_lines
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class PieceVectors:
    """Vectors for some pieces of a vocabulary.

    Attributes:
        ids: [N] those that the file knows, ascending.
        values: [N, D] their vectors, float32.
        pieces: how many pieces of text the vocabulary has.
        words: how many words the file has.
    """

    ids: NDArray[np.int64]
    values: NDArray[np.float32]
    pieces: int
    words: int


class _Wanted(NamedTuple):
    """A piece that a word would serve, and how well: 0 is best."""

    piece: int
    rank: int


@dataclass
class _Matches:
    """Which piece is served by which words, and the best vector of each so far."""

    wanted: dict[str, list[_Wanted]] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    values: dict[int, NDArray[np.float32]] = field(default_factory=dict)

    def want(self, word: str, piece: int, rank: int) -> None:
        if word:
            self.wanted.setdefault(word, []).append(_Wanted(piece, rank))

    def take(self, word: str, value: NDArray[np.float32]) -> None:
        for piece, rank in self.wanted.get(word, ()):
            if rank < self.ranks.get(piece, rank + 1):  # of equal words the first, which is the more frequent one
                self.ranks[piece], self.values[piece] = rank, value


def read_piece_vectors(path: Path, tokenizer: Tokenizer, dim: int) -> PieceVectors:
    """The vectors that a file has for the pieces of a tokenizer; memory grows with the vocabulary, not with the file.

    A file learned from pieces (one with U+2581 in it) is matched piece by piece. Any other is one of words: a piece
    that begins a word is matched with that word, else with it in lower case; one that does not is part of a word, of
    which the file knows nothing, unless it has no letters (full stops and numbers stand alone in such files).

    Args:
        path: plain or compressed.
        tokenizer: whose pieces are looked for.
        dim: numbers that a vector must have.

    Raises:
        DataError: vectors of another length, a line that is no vector, or no piece found; names the line.
        MissingInputError, ReadWriteError: as `read_lines`.
    """
    of_pieces, of_words, pieces = _wanted(tokenizer)
    words, is_of_pieces = 0, False
    for number, word, rest in _entries(path, dim):
        words += 1
        is_of_pieces = is_of_pieces or word.startswith(SPACE_MARK)
        if word in of_pieces.wanted or word in of_words.wanted:
            value = _numbers(rest, dim, f"{path}:{number}")
            if value is None:
                continue
            of_pieces.take(word, value)
            of_words.take(word, value)
    found = (of_pieces if is_of_pieces else of_words).values
    if not found:
        raise DataError(f"{path}: none of its {words:,} words is a piece of the vocabulary; is it of another language?")
    ids = sorted(found)
    return PieceVectors(np.array(ids), np.stack([found[piece] for piece in ids]), pieces, words)


def _wanted(tokenizer: Tokenizer) -> tuple[_Matches, _Matches, int]:
    of_pieces, of_words = _Matches(), _Matches()
    no_text = {*tokenizer.control_ids(), tokenizer.vocab.unk}
    names = tokenizer.pieces(range(tokenizer.vocab.size))
    for piece, name in enumerate(names):
        if piece in no_text:
            continue
        of_pieces.want(name, piece, 0)
        if name.startswith(SPACE_MARK) or not any(map(str.isalpha, name)):
            word = name.removeprefix(SPACE_MARK)
            of_words.want(word, piece, 0)
            of_words.want(word.lower(), piece, 1)
    return of_pieces, of_words, len(names) - len(no_text)


def _entries(path: Path, dim: int) -> Iterator[tuple[int, str, str]]:
    """Line number, word, and what follows it, of every vector.

    Raises:
        DataError: the first line tells of vectors of another length, or there is none.
    """
    lines = read_lines(path)
    first = next(lines, "")
    word, _, rest = first.rstrip(" ").partition(" ")
    is_header = word.isdigit() and rest.isdigit()
    stated = int(rest) if is_header else rest.count(" ") + 1
    if not rest:
        raise DataError(f"{path}:1: not a file of word vectors: a word and its numbers are expected, in text")
    if stated != dim:
        raise DataError(
            f"{path}:1: its vectors have {stated} numbers, the embeddings of this model {dim}; make the model's as "
            "wide (model.d_model, or model.d_embedding where there is one), or take another file"
        )
    if not is_header:
        yield 1, word, rest
    for number, line in enumerate(lines, 2):
        word, _, rest = line.rstrip(" ").partition(" ")
        yield number, word, rest


def _numbers(rest: str, dim: int, place: str) -> NDArray[np.float32] | None:
    """The vector behind a word, or None if more words come first: an entry with spaces in it, as GloVe has some."""
    fields = rest.split(" ")
    if len(fields) > dim and not _is_number(fields[0]):
        return None
    if len(fields) != dim:
        raise DataError(f"{place}: {len(fields)} numbers follow the word, where the file has {dim}; is it damaged?")
    try:
        value = np.array(fields, dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{place}: not a vector of numbers: {error}") from error
    if not np.isfinite(value).all():
        raise DataError(f"{place}: a number of this vector is not finite; is the file damaged?")
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
