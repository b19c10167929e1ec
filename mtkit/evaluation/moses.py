"""Moses tokenization, on which published Multi30k scores are based. Needs the extra [moses]."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from mtkit.errors import MissingExtraError


def is_installed() -> bool:
    """Return whether sacremoses is installed."""
    return importlib.util.find_spec("sacremoses") is not None


def check_installed() -> None:
    """Raise MissingExtraError unless sacremoses is installed."""
    if not is_installed():
        raise MissingExtraError("moses", "sacremoses")


def tokenize(lines: Sequence[str], lang: str) -> list[str]:
    """The Moses tokens of each line, joined by spaces; nothing is escaped and the case is kept.

    Args:
        lang: language of the abbreviations; an unknown language is tokenized as English.

    Raises:
        MissingExtraError: sacremoses is not installed.
    """
    check_installed()
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang=lang)
    return [tokenizer.tokenize(line, escape=False, return_str=True) for line in lines]
