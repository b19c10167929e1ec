"""What happens to a line before it is segmented: nothing, unless the recipe says otherwise.

Two things cannot be kept and are replaced, in every kind of normalisation: U+2581, which sentencepiece uses for the
space, becomes an underscore; a lone surrogate, which is no character and which no file can hold, becomes U+FFFD.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

Normalisation = Literal["identity", "nfc", "nfkc"]

SPACE_MARK = "\u2581"  # sentencepiece's own sign for a space
REPLACEMENT = "_"
_UNKEEPABLE = re.compile("[\u2581\ud800-\udfff]")


def normalise(line: str, kind: Normalisation) -> str:
    """Normalise a line; doing it twice changes nothing more.

    Args:
        line: any text.
        kind: identity; or Unicode's composed form, canonical (nfc) or compatible (nfkc), Unicode Annex 15.
    """
    if kind == "nfc":
        line = unicodedata.normalize("NFC", line)
    elif kind == "nfkc":
        line = unicodedata.normalize("NFKC", line)
    if _UNKEEPABLE.search(line):
        line = _UNKEEPABLE.sub(lambda match: REPLACEMENT if match[0] == SPACE_MARK else "\ufffd", line)
    return line


def count_replaced(line: str) -> int:
    """How many characters of the line `normalise` has to replace in every kind of normalisation."""
    return len(_UNKEEPABLE.findall(line))
