"""Vocabularies that are lists of names: file of merges of subword-nmt (BPE codes), and vocabulary of WordPiece.

Their classes have those methods of SentencePieceProcessor that Tokenizer calls.
"""

from __future__ import annotations

import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from mtkit.text.normalise import SPACE_MARK
from mtkit.text.vocab import RESERVED_TOKENS, UNKNOWN_SURFACE, Vocab

UNK = RESERVED_TOKENS.index("<unk>")
_MAX_CACHED_WORDS = 1 << 20
_UNUSED = b"#unused: "  # begins a line with the number of tokens that pad the vocabulary
_CHARACTERS = b"#characters: "  # begins a line with further characters of the vocabulary of BPE codes
_END_OF_WORD = "</w>"
CONTINUES = "@@"
_EMPTY_WORD = SPACE_MARK
_BYTE_LEVEL_SPACE = "Ġ"  # how the byte-level BPE of GPT-2 writes a space
_INSIDE = "##"


class NamedVocabulary:
    """Tokens by id, with the methods of SentencePieceProcessor that follow from their names."""

    header: ClassVar[bytes]  # how a file begins

    def __init__(self, names: list[str], vocab: Vocab) -> None:
        """Take the names by id, and the special ids."""
        self._names, self.vocab = names, vocab
        self._ids = {name: token_id for token_id, name in enumerate(names)}

    def id_to_piece(self, ids: Sequence[int] | int) -> Any:
        """The name of a token, or of each token."""
        return self._names[ids] if isinstance(ids, int) else [self._names[token_id] for token_id in ids]

    def piece_to_id(self, names: Sequence[str] | str) -> Any:
        """The id of a name, or of each name; that of the unknown token if there is none."""
        unk = self.vocab.unk
        return self._ids.get(names, unk) if isinstance(names, str) else [self._ids.get(name, unk) for name in names]


class ListedVocabulary(NamedVocabulary, ABC):
    """Control tokens, the tokens of words, and unused tokens that pad the vocabulary."""

    def __init__(self, names: Iterable[str], *, num_unused: int) -> None:
        """Number the names; a repeated one counts once."""
        listed = list(dict.fromkeys((*RESERVED_TOKENS, *names)))
        self._first_unused = len(listed)
        listed += list(itertools.islice(unused_names(listed), num_unused))
        super().__init__(listed, Vocab(size=len(listed), pad=0, unk=UNK, bos=2, eos=3))
        self._segment_cached = lru_cache(_MAX_CACHED_WORDS)(lambda word: self._segment(word, lambda: False))

    @abstractmethod
    def _words(self, line: str) -> Iterable[str]:
        """The words of a line."""

    @abstractmethod
    def _segment(self, word: str, skips: Callable[[], bool]) -> list[str]:
        """The tokens of a word; `skips` returns whether the next applicable step of the segmentation is skipped."""

    def encode(self, lines: Sequence[str], *, num_threads: int = 1, out_type: type = int) -> Any:
        """The ids of each line, or with `out_type` str its tokens; an unknown word may be a token of its own."""
        tokens = [[token for word in self._words(line) for token in self._segment_cached(word)] for line in lines]
        return tokens if out_type is str else [self.piece_to_id(each) for each in tokens]

    def sample(self, line: str, *, seed: int, alpha: float) -> list[int]:
        """The ids of a line, of whose segmentation every step is skipped with probability alpha."""
        draw = random.Random(seed).random
        ids: list[int] = self.piece_to_id(
            [token for word in self._words(line) for token in self._segment(word, lambda: draw() < alpha)]
        )
        return ids

    def is_byte(self, token_id: int) -> bool:
        """Return whether a token is a byte; none is."""
        return False

    def is_control(self, token_id: int) -> bool:
        """Return whether no text produces a token."""
        return (token_id < len(RESERVED_TOKENS) and token_id != UNK) or token_id >= self._first_unused

    def with_unused(self, content: bytes, count: int) -> bytes:
        """The content of the file with unused tokens that pad its vocabulary, as its second line."""
        header, _, rest = content.partition(b"\n")
        return header + b"\n" + _UNUSED + str(count).encode() + b"\n" + rest

    def text_names(self, tokens: Sequence[int | str]) -> list[str]:
        """The names of ids or names without control tokens; a name that the vocabulary lacks is kept."""
        names = [token if isinstance(token, str) else self._names[token] for token in tokens]
        return [name for name in names if self._ids.get(name, UNK) == UNK or not self.is_control(self._ids[name])]


def unused_names(known: Iterable[str]) -> Iterator[str]:
    """Names of tokens that pad a vocabulary, without end, apart from those that it has."""
    taken = set(known)
    return (name for number in itertools.count() if (name := f"<unused{number}>") not in taken)


def split_unused(lines: list[str]) -> tuple[int, list[str]]:
    """The number of unused tokens, and the lines after the header without it."""
    mark = _UNUSED.decode()
    if lines and lines[0].startswith(mark) and lines[0].removeprefix(mark).isdecimal():
        return int(lines[0].removeprefix(mark)), lines[1:]
    return 0, lines


class BpeCodes(ListedVocabulary):
    """Byte-pair encoding by a file of merges, as subword-nmt learns and applies it.

    Sennrich et al. 2016, https://arxiv.org/abs/1508.07909. A line is split at spaces. Each word is a sequence of
    characters, the last of which ends with `</w>`; pairs of symbols are merged in the order of the file. In the
    vocabulary, a symbol inside a word is written with `@@`, as `subword-nmt apply-bpe` does. An additional token stands
    for an empty word, so that a line with several spaces in a row is decoded exactly; no line without them contains it.

    The vocabulary consists of the control tokens, the empty word, each character of the merges and of the additional
    ones (see with_characters) inside and at the end of a word, and the result of each merge.
    """

    header = b"#version:"  # files of the first version may lack it

    def __init__(self, content: bytes) -> None:
        """Parse a file of merges; RuntimeError names the line that is not one."""
        try:
            head, *lines = content.decode().split("\n")
        except UnicodeDecodeError as error:
            raise RuntimeError("not UTF-8") from error
        version = head.removeprefix(self.header.decode()).strip()
        if version not in ("0.1", "0.2"):
            raise RuntimeError(f"line 1: version {version!r}; mtkit reads codes of subword-nmt 0.1 and 0.2")
        if lines and not lines[-1]:
            lines.pop()
        num_lines = len(lines)
        num_unused, lines = split_unused(lines)
        has_extra = bool(lines) and lines[0].startswith(_CHARACTERS.decode())
        extra = lines[0].removeprefix(_CHARACTERS.decode()) if has_extra else ""
        pairs = []
        for number, line in enumerate(lines[has_extra:], start=2 + num_lines - len(lines) + has_extra):
            left, _, right = line.strip("\r ").partition(" ")
            if not left or not right or " " in right:
                raise RuntimeError(f"line {number}: {line[:40]!r} is not a merge of two symbols")
            if _BYTE_LEVEL_SPACE in (left[0], right[0]):
                raise RuntimeError(f"line {number}: {line[:40]!r} is byte-level BPE as in GPT-2, not subword-nmt's")
            pairs.append((left, right))
        if not pairs:
            raise RuntimeError("no merges")
        self._ends_as_symbol = version == "0.1"  # the end of a word is a symbol of its own, not a part of the last one
        self._ranks: dict[tuple[str, str], int] = {}
        for rank, pair in enumerate(pairs):
            self._ranks.setdefault(pair, rank)
        merged = ["".join(pair) for pair in pairs]
        characters = sorted({*extra, *(c for symbol in merged for c in symbol.removesuffix(_END_OF_WORD))})
        names = [_EMPTY_WORD, *(name for c in characters for name in (c + CONTINUES, c))]
        for symbol in merged:
            text = symbol.removesuffix(_END_OF_WORD)
            if text == symbol:
                names.append(text + CONTINUES)
            if text and (text != symbol or self._ends_as_symbol):
                names.append(text)
        super().__init__(names, num_unused=num_unused)

    def decode(self, lines: Sequence[Sequence[int | str]], *, num_threads: int = 1) -> list[str]:
        """The text of each sequence of ids or names; control tokens are dropped."""
        texts = []
        for names in map(self.text_names, lines):
            text = "".join(map(self.surface, names)).replace(SPACE_MARK, " ")
            texts.append(text[:-1] if names and not names[-1].endswith(CONTINUES) else text)
        return texts

    def surface(self, name: str) -> str:
        """The text of a token, with U+2581 for the space after a word."""
        if name == RESERVED_TOKENS[UNK]:
            return UNKNOWN_SURFACE + SPACE_MARK
        return name.removesuffix(CONTINUES) if name.endswith(CONTINUES) else name.rstrip(SPACE_MARK) + SPACE_MARK

    def _words(self, line: str) -> list[str]:
        return line.split(" ") if line else []

    def _segment(self, word: str, skips: Callable[[], bool]) -> list[str]:
        """Merge the characters of a word. Skipped merges are BPE-dropout, which skips at every step, as in subword-nmt.

        Provilkov et al. 2020, algorithm 1, https://arxiv.org/abs/1910.13267
        """
        if not word:
            return [_EMPTY_WORD]
        symbols = [*word[:-1], word[-1] + _END_OF_WORD]
        if self._ends_as_symbol:
            symbols = [*word, _END_OF_WORD]
        while True:
            pairs = [
                (self._ranks[pair], i)
                for i, pair in enumerate(itertools.pairwise(symbols))
                if pair in self._ranks and not skips()
            ]
            if not pairs:
                break
            best = min(pairs)[0]
            # from the right, so that positions stay valid; of overlapping pairs (x x x) the leftmost is merged
            positions: list[int] = []
            for rank, i in pairs:
                if rank == best and (not positions or i > positions[-1] + 1):
                    positions.append(i)
            for i in reversed(positions):
                symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
        last = symbols[-1].removesuffix(_END_OF_WORD)
        if not last:  # the end of the word is a symbol of its own
            symbols.pop()
            last = symbols[-1]
        # Merges that were learned from text with @@, </w> or the name of a control token can give a symbol whose name
        # means something else, or nothing: its characters are taken instead.
        spelled = [part for symbol in symbols[:-1] for part in self._known_or_spelled(symbol, CONTINUES)]
        if last.endswith(CONTINUES):
            return [*spelled, *(character + CONTINUES for character in last[:-1]), last[-1]]
        return [*spelled, *self._known_or_spelled(last, "")]

    def _known_or_spelled(self, symbol: str, end: str) -> list[str]:
        """The name of a symbol, or those of its characters if the vocabulary lacks it; the last name has this end."""
        if symbol + end in self._ids and symbol + end not in RESERVED_TOKENS:
            return [symbol + end]
        return [*(character + CONTINUES for character in symbol[:-1]), symbol[-1] + end]


def with_header(content: bytes) -> bytes:
    """The content of a file of merges, with the header that a file of the first version may lack."""
    return content if content.startswith(BpeCodes.header) else BpeCodes.header + b" 0.1\n" + content


def with_characters(content: bytes, characters: Iterable[str]) -> bytes:
    """A file of merges with further characters for its vocabulary, as its second line.

    Merges name only the characters that occur inside words: without those of the training text, a punctuation mark
    that always stands alone would be unknown.
    """
    header, _, rest = with_header(content).partition(b"\n")
    known = ""
    if rest.startswith(_CHARACTERS):
        line, _, rest = rest.partition(b"\n")
        known = line.removeprefix(_CHARACTERS).decode()
    extra = "".join(sorted({*characters, *known} - {" ", "\n"}))
    return header + b"\n" + _CHARACTERS + extra.encode() + b"\n" + rest


class WordPiece(ListedVocabulary):
    """WordPiece: words segmented greedily into the longest pieces of a vocabulary.

    Schuster and Nakajima 2012; Devlin et al. 2019, sec. 3. A line is split at spaces, each word begins with U+2581, and
    every piece inside a word with `##`. Unlike BERT's, the pieces of a line give it back exactly: no character is
    dropped or changed, and several spaces in a row are words without letters. A word with a character that the
    vocabulary lacks is one unknown token, as in BERT.
    """

    header = b"#wordpiece 1"  # the first line of a file; a token on each other line

    def __init__(self, content: bytes) -> None:
        """Parse a vocabulary file; RuntimeError for any other content."""
        try:
            head, *lines = content.decode().split("\n")
        except UnicodeDecodeError as error:
            raise RuntimeError("not UTF-8") from error
        num_unused, names = split_unused(lines[:-1] if lines and not lines[-1] else lines)
        if head.encode() != self.header or not names:
            raise RuntimeError("not a vocabulary of WordPiece")
        super().__init__(names, num_unused=num_unused)
        self._max_length = max(map(len, names))

    def decode(self, lines: Sequence[Sequence[int | str]], *, num_threads: int = 1) -> list[str]:
        """The text of each sequence of ids or names; control tokens are dropped."""
        texts = ("".join(map(self.surface, self.text_names(tokens))) for tokens in lines)
        return [text.removeprefix(SPACE_MARK).replace(SPACE_MARK, " ") for text in texts]

    def surface(self, name: str) -> str:
        """The text of a token, with U+2581 for the space before a word."""
        return SPACE_MARK + UNKNOWN_SURFACE if name == RESERVED_TOKENS[UNK] else name.removeprefix(_INSIDE)

    def _words(self, line: str) -> Iterable[str]:
        return (SPACE_MARK + word for word in line.split(" ")) if line else ()

    def _segment(self, word: str, skips: Callable[[], bool]) -> list[str]:
        """The pieces of a word from left to right; the word itself if a character has no piece.

        Skipped matches, of more than a character, are MaxMatch-Dropout: Hiraoka 2022, https://arxiv.org/abs/2209.04126
        """
        pieces: list[str] = []
        start = 0
        while start < len(word):
            mark = _INSIDE if start else ""
            for end in range(min(len(word), start + self._max_length), start, -1):
                piece = mark + word[start:end]
                if piece in self._ids and (end == start + 1 or not skips()):
                    break
            else:
                return [word]
            pieces.append(piece)
            start = end
        return pieces


def word_piece_vocabulary(pieces: Iterable[str]) -> bytes:
    """A vocabulary file of the pieces of a BPE model whose words begin with U+2581.

    As in the trainer of Hugging Face's tokenizers, the vocabulary is that of BPE, and only the segmentation differs.
    """
    names = [name if name.startswith(SPACE_MARK) else _INSIDE + name for name in pieces]
    return WordPiece.header + b"\n" + "".join(f"{name}\n" for name in dict.fromkeys((SPACE_MARK, *names))).encode()
