"""Byte-pair encoding by a file of merges, as subword-nmt learns and applies it.

Sennrich et al. 2016, https://arxiv.org/abs/1508.07909. A line is split at spaces. Each word is a sequence of
characters, the last of which ends with `</w>`; pairs of symbols are merged in the order of the file. In the vocabulary,
a symbol inside a word is written with `@@`, as `subword-nmt apply-bpe` does. An additional token stands for an empty
word, so that a line with several spaces in a row is decoded exactly; no line without them contains it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.listed_vocabulary import CONTROL, UNK, UNKNOWN_TEXT, ListedVocabulary, split_unused

HEADER = b"#version:"  # begins the first line of a file; files of the first version may lack it
_CHARACTERS = b"#characters: "  # begins a line with further characters of the vocabulary
_END_OF_WORD = "</w>"
CONTINUES = "@@"
_EMPTY_WORD = SPACE_MARK
_BYTE_LEVEL_SPACE = "Ġ"  # how the byte-level BPE of GPT-2 writes a space


class BpeCodes(ListedVocabulary):
    """Merges and their vocabulary, with those methods of SentencePieceProcessor that Tokenizer calls.

    The vocabulary consists of the control tokens, the empty word, each character of the merges and of the additional
    ones (see with_characters) inside and at the end of a word, and the result of each merge.
    """

    def __init__(self, content: bytes) -> None:
        """Parse a file of merges; RuntimeError names the line that is not one."""
        version, extra, pairs, num_unused = _parse(content)
        self._ends_as_symbol = version == "0.1"  # the end of a word is a symbol of its own, not a part of the last one
        self._ranks: dict[tuple[str, str], int] = {}
        for rank, pair in enumerate(pairs):
            self._ranks.setdefault(pair, rank)
        super().__init__((_EMPTY_WORD, *self._symbol_names(pairs, extra)), num_unused=num_unused)

    def _symbol_names(self, pairs: Iterable[tuple[str, str]], extra: str) -> Iterable[str]:
        merged = ["".join(pair) for pair in pairs]
        characters = sorted({*extra, *(c for symbol in merged for c in symbol.removesuffix(_END_OF_WORD))})
        yield from (name for c in characters for name in (c + CONTINUES, c))
        for symbol in merged:
            text = symbol.removesuffix(_END_OF_WORD)
            if text == symbol:
                yield text + CONTINUES
            if text and (text != symbol or self._ends_as_symbol):
                yield text

    def decode(self, lines: Sequence[Sequence[int | str]], *, num_threads: int = 1) -> list[str]:
        """The text of each sequence of ids or names; control tokens are dropped."""
        return [self._join(self.text_names(tokens)) for tokens in lines]

    def surface(self, name: str) -> str:
        """The text of a token, with U+2581 for the space after a word."""
        return name.removesuffix(CONTINUES) if name.endswith(CONTINUES) else name.rstrip(SPACE_MARK) + SPACE_MARK

    def _join(self, names: Sequence[str]) -> str:
        joined = "".join(
            UNKNOWN_TEXT if name == CONTROL[UNK] else self.surface(name).replace(SPACE_MARK, " ") for name in names
        )
        return joined[:-1] if names and not names[-1].endswith(CONTINUES) else joined

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
        if symbol + end in self._ids and symbol + end not in CONTROL:
            return [symbol + end]
        return [*(character + CONTINUES for character in symbol[:-1]), symbol[-1] + end]


def with_header(content: bytes) -> bytes:
    """The content of a file of merges, with the header that a file of the first version may lack."""
    return content if content.startswith(HEADER) else HEADER + b" 0.1\n" + content


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


def _parse(content: bytes) -> tuple[str, str, list[tuple[str, str]], int]:
    """Version, additional characters, merges and number of unused tokens of a file with a header."""
    try:
        head, *lines = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise RuntimeError("not UTF-8") from error
    version = head.removeprefix(HEADER.decode()).strip()
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
    return version, extra, pairs, num_unused
