"""WordPiece: words segmented greedily into the longest pieces of a vocabulary.

Schuster and Nakajima 2012; Devlin et al. 2019, sec. 3. A line is split at spaces, each word begins with U+2581, and
every piece inside a word with `##`. Unlike BERT's, the pieces of a line give it back exactly: no character is dropped
or changed, and several spaces in a row are words without letters. A word with a character that the vocabulary lacks is
one unknown token, as in BERT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.listed_vocabulary import CONTROL, UNK, UNKNOWN_TEXT, ListedVocabulary, split_unused

HEADER = b"#wordpiece 1"  # the first line of a file; a token on each other line
_INSIDE = "##"


class WordPiece(ListedVocabulary):
    """A vocabulary of WordPiece, with those methods of SentencePieceProcessor that Tokenizer calls."""

    def __init__(self, content: bytes) -> None:
        """Parse a vocabulary file; RuntimeError for any other content."""
        try:
            head, *lines = content.decode().split("\n")
        except UnicodeDecodeError as error:
            raise RuntimeError("not UTF-8") from error
        num_unused, names = split_unused(lines[:-1] if lines and not lines[-1] else lines)
        if head.encode() != HEADER or not names:
            raise RuntimeError("not a vocabulary of WordPiece")
        super().__init__(names, num_unused=num_unused)
        self._max_length = max(map(len, names))

    def decode(self, lines: Sequence[Sequence[int | str]], *, num_threads: int = 1) -> list[str]:
        """The text of each sequence of ids or names; control tokens are dropped."""
        texts = ("".join(map(self.surface, self.text_names(tokens))) for tokens in lines)
        return [text.removeprefix(SPACE_MARK).replace(SPACE_MARK, " ") for text in texts]

    def surface(self, name: str) -> str:
        """The text of a token, with U+2581 for the space before a word."""
        return SPACE_MARK + UNKNOWN_TEXT.strip() if name == CONTROL[UNK] else name.removeprefix(_INSIDE)

    def _words(self, line: str) -> Iterable[str]:
        return (SPACE_MARK + word for word in line.split(" ")) if line else ()

    def _segment(self, word: str, skips: Callable[[], bool]) -> list[str]:
        """The pieces of a word from left to right; the word itself if a character has no piece.

        Skipped matches, of more than a character, are MaxMatch-Dropout: Hiraoka 2022, https://arxiv.org/abs/2209.04126
        """
        pieces: list[str] = []
        start = 0
        while start < len(word):
            prefix = _INSIDE if start else ""
            for end in range(min(len(word), start + self._max_length), start, -1):
                piece = prefix + word[start:end]
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
    return HEADER + b"\n" + "".join(f"{name}\n" for name in dict.fromkeys((SPACE_MARK, *names))).encode()
