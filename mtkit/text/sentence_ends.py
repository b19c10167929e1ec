"""The pieces of a vocabulary that end a sentence."""

from __future__ import annotations

import re

from mtkit.text.tokenizer import Tokenizer

# a mark of European, Chinese, Japanese or Indic scripts, and the quotes or brackets that close after it
_END = re.compile("[.!?…。\uff01\uff1f।][\"'“”‘’»)\\]」』\uff09]*$")


def sentence_ends(tokenizer: Tokenizer) -> list[int]:
    """Ids of the pieces that end with a mark such as `.`; what stands around one in a line is not looked at."""
    control = set(tokenizer.control_ids())
    pieces = tokenizer.pieces(range(tokenizer.vocab.size))
    return [number for number, piece in enumerate(pieces) if _END.search(piece) and number not in control]
