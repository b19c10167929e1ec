"""Pieces that every vocabulary reserves and that no text can produce.

They are sentencepiece *control* symbols: the characters `<sep>` in a text are segmented as characters. They are there
from the first day because a vocabulary cannot grow without changing every matrix of a model that was trained with it.
"""

from __future__ import annotations

SEPARATOR = "<sep>"  # between source and target, or between the sentences of a document


MASK = "<mask>"  # a hidden piece, in pre-training


NUM_TAGS = 32


NUM_SPANS = 32


NUM_SPARE = 32


def tag(number: int) -> str:
    """The piece of a language, domain or corpus tag; what each number stands for is the recipe's matter."""
    return f"<tag{number}>"


def span(number: int) -> str:
    """The sentinel of the n-th removed span (T5, Raffel et al. 2020, sec. 3.1.4)."""
    return f"<span{number}>"


def spare(number: int) -> str:
    """A piece without a meaning yet."""
    return f"<spare{number}>"


RESERVED: tuple[str, ...] = (
    SEPARATOR,
    MASK,
    *(tag(number) for number in range(NUM_TAGS)),
    *(span(number) for number in range(NUM_SPANS)),
    *(spare(number) for number in range(NUM_SPARE)),
)
