"""Vocabularies: their size and special ids, and the special tokens that all of them reserve and no text can produce.

Special tokens are sentencepiece *control* symbols: the characters `<sep>` in a text are segmented as ordinary
characters. All are reserved from the start, because adding a token later would change the shape of every embedding and
output matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

SEPARATOR = "<sep>"  # reserved for document translation; no model uses it yet
MASK = "<mask>"  # replaces a masked token in pre-training

NUM_TAGS = 32
NUM_SENTINELS = 32
NUM_SPARE = 32


def tag_token(number: int) -> str:
    """The token of a language, domain or corpus tag; the recipe decides the meaning of each number."""
    return f"<tag{number}>"


def sentinel_token(number: int) -> str:
    """The sentinel token of the n-th removed span (T5, Raffel et al. 2020, sec. 3.1.4)."""
    return f"<span{number}>"


def spare_token(number: int) -> str:
    """A token for spans that are copied (see copy_tokens.py), or without a meaning yet."""
    return f"<spare{number}>"


SPECIAL_TOKENS: tuple[str, ...] = (
    SEPARATOR,
    MASK,
    *(tag_token(number) for number in range(NUM_TAGS)),
    *(sentinel_token(number) for number in range(NUM_SENTINELS)),
    *(spare_token(number) for number in range(NUM_SPARE)),
)

RESERVED_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", *SPECIAL_TOKENS)  # by id, in the models that mtkit trains
UNKNOWN_SURFACE = "\u2047"  # text that the unknown token decodes to


@dataclass(frozen=True)
class Vocab:
    """The size of a vocabulary and its special ids, V = `size`.

    Attributes:
        size: number of tokens, including special and reserved ones.
        pad: fills a batch; excluded from the loss.
        unk: replaces text that no other token covers.
        bos: the first token that the decoder reads.
        eos: ends a sentence, on both sides.
    """

    size: int
    pad: int
    unk: int
    bos: int
    eos: int
