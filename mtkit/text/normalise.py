"""Normalisation of a line before tokenization: none by default, Unicode NFC or NFKC on request.

Every kind of normalisation replaces two characters that cannot be represented: U+2581, which sentencepiece uses for
the space, becomes an underscore; a lone surrogate, which UTF-8 cannot encode, becomes U+FFFD.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

Normalisation = Literal["identity", "nfc", "nfkc"]

SPACE_MARK = "\u2581"  # sentencepiece's symbol for a space
SPACE_MARK_REPLACEMENT = "_"
_UNREPRESENTABLE = re.compile("[\u2581\ud800-\udfff]")


def normalise(line: str, kind: Normalisation) -> str:
    """Normalise a line; the function is idempotent.

    Args:
        kind: identity; or Unicode's composed form, canonical (nfc) or compatible (nfkc), Unicode Annex 15.
    """
    if kind == "nfc":
        line = unicodedata.normalize("NFC", line)
    elif kind == "nfkc":
        line = unicodedata.normalize("NFKC", line)
    if _UNREPRESENTABLE.search(line):
        line = _UNREPRESENTABLE.sub(lambda match: SPACE_MARK_REPLACEMENT if match[0] == SPACE_MARK else "\ufffd", line)
    return line


def count_unrepresentable(line: str) -> int:
    """The number of characters in the line that every kind of normalisation replaces."""
    return len(_UNREPRESENTABLE.findall(line))
