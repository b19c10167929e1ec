"""Text that people read on a terminal: control and bidirectional characters as escapes, long lines shortened.

A terminal obeys escape sequences in text: OSC 52 writes the clipboard, others move the cursor or change the title.
"""

from __future__ import annotations

import re

MAX_LINE = 1000  # characters of a line of a message; a sample of text is seldom longer
_KEPT = 100  # characters of a shortened line's end

# C0 without tab and newline, DEL, C1; line and paragraph separators; directional marks, embeddings, overrides and
# isolates (Unicode 16, UAX 9); tag characters, which are invisible; single surrogates, which no terminal can encode
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str, max_line: int = MAX_LINE) -> str:
    r"""Escape what a terminal would obey, as in `\x1b`, and shorten lines; line breaks are kept.

    Args:
        max_line: characters of a line that is not shortened; a longer one keeps both ends and states its length.
    """
    if len(text) > max_line:
        text = "\n".join(_shorten(line, max_line) for line in text.split("\n"))
    return _UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text)


def _shorten(line: str, max_line: int) -> str:
    if len(line) <= max_line:
        return line
    return f"{line[: max_line - _KEPT]}... ({len(line):,} characters) ...{line[-_KEPT:]}"
