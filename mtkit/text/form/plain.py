"""The normaliser of training and translation: white space and invisible characters, which change no translation.

It stands before the tokenizer, whose `encode` and `decode` stay exact. Name and version are in the configuration of the
tokenizer, and so in config.json of a model: a change of these rules is a new version beside the old one. Models of
earlier versions of mtkit have none.

Two kinds of invisible characters carry meaning and stay. The joiners U+200C and U+200D change words of Arabic and Indic
scripts (Unicode Standard, sec. 9.2 and 12.1) and join emoji (Unicode Technical Standard 51). No-break spaces are a part
of typography, of French for example: the target side keeps them, the source side reads them as spaces.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Normaliser = Literal["none", "plain-1"]

# Controls that are no white space, soft hyphen, combining grapheme joiner, zero-width spaces, direction marks,
# invisible operators, deprecated formats, byte order mark, interlinear annotation.
_DROPPED = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad"
_DROPPED += "\u034f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
_ARABIC = "\u0600-\u08ff\ufb50-\ufdff\ufe70-\ufefc"  # with Syriac, Thaana and N'Ko
_INDIC = "\u0900-\u0fff\u1000-\u109f\u1780-\u18af\u1a20-\u1aaf\ua840-\uabff\U00011000-\U00011fff"
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"

_ODD = re.compile(rf"[^\S ]|  |^ | $|[\u200c\u200d{_DROPPED}]")
_DROP = re.compile(f"[{_DROPPED}]+")
_JOINERS = re.compile(
    rf"((?<=[{_ARABIC}])[\u200c\u200d](?=[{_ARABIC}])|(?<=[{_INDIC}])[\u200c\u200d]|"
    rf"(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}]))|[\u200c\u200d]"
)
_REPEATED_JOINER = re.compile("([\u200c\u200d])\\1+")
_SPACES = re.compile(r"\s+")
_NO_BREAK = frozenset("\xa0\u202f")
# White space and what is dropped, for str.strip; the ranges have all of both, and little else.
_CANDIDATES = (*range(0xAE), 0x34F, 0x61C, 0x1680, *range(0x2000, 0x2070), 0x3000, 0xFEFF, *range(0xFFF9, 0xFFFC))
_EDGE = "".join(each for each in map(chr, _CANDIDATES) if each.isspace() or _DROP.match(each))


def plain(line: str, *, keep_no_break: bool = False) -> str:
    """The text that training and translation read; the function is idempotent.

    Args:
        line: any text.
        keep_no_break: whether no-break spaces without another space beside them stay as they are.
    """
    if not _ODD.search(line):
        return line
    line = _JOINERS.sub(r"\1", _REPEATED_JOINER.sub(r"\1", _DROP.sub("", line)))

    def space(match: re.Match[str]) -> str:
        return match[0][0] if keep_no_break and _NO_BREAK.issuperset(match[0]) else " "

    return _SPACES.sub(space, line.strip())


_OPENING = "\"'“‘«„¿¡♪"  # signs before a text


def speaker_dash(line: str) -> str:
    """The dash before what a speaker says, with the white space around it; empty without one.

    A hyphen is one before white space or a capital letter: `- Yes`, `-Yes`, but not `-v`.
    """
    text = line.lstrip()
    after = text[1:].lstrip()
    is_dash = text.startswith(("–", "—")) or (text.startswith("-") and (after != text[1:] or after[:1].isupper()))
    has_text = after[:1].isalpha() or (after[:1] in _OPENING and after[1:2].isalpha())
    return line[: len(line) - len(after)] if is_dash and has_text else ""


class OuterSpace(NamedTuple):
    """White space at the ends of a line, invisible characters left out; a blank line has all of it before.

    The dash of a speaker and the white space after it are in `before`.
    """

    before: str
    after: str


NO_SPACE = OuterSpace("", "")


def outer_space(line: str) -> OuterSpace:
    """The white space that `plain` removes at the ends of a line."""
    if line == line.strip(_EDGE):
        return NO_SPACE
    start = len(line) - len(line.lstrip(_EDGE))
    end = max(start, len(line.rstrip(_EDGE)))
    return OuterSpace(_DROP.sub("", line[:start]), _DROP.sub("", line[end:]))
