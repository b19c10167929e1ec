"""Normalisation of a line before tokenization.

Two steps follow each other. The normaliser of training and translation (`plain`) makes white space single spaces and
removes invisible characters, which change no translation. On the source side, typographic characters are then folded
(`Folding`): a model reads the form that it was trained on. Last comes the form of the text (`TextForm`): as it is by
default, Unicode's NFC or NFKC and lower case on request.

The normaliser stands before the tokenizer, whose `encode` and `decode` stay exact. Its name and version are in the
configuration of the tokenizer, and so in config.json of a model: a change of these rules is a new version beside the
old one. Models of earlier versions of mtkit have none.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Literal, NamedTuple

Normaliser = Literal["none", "plain-1"]

# Two kinds of invisible characters carry meaning and stay. The joiners U+200C and U+200D change words of Arabic and
# Indic scripts (Unicode Standard, sec. 9.2 and 12.1) and join emoji (Unicode Technical Standard 51). No-break spaces
# are a part of typography, of French for example: the target side keeps them, the source side reads them as spaces.
# Removed are controls that are no white space, soft hyphen, combining grapheme joiner, zero-width spaces, direction
# marks, invisible operators, deprecated formats, byte order mark, interlinear annotation.
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


COUNTED_LINES = 200_000  # of the training sources
RARE = 10  # a form that is this many times less frequent than the common one is read as that one
_QUOTES = dict.fromkeys("“”„‟«»〝〞", '"') | dict.fromkeys("‘’‚‛", "'")
_DASHES = dict.fromkeys("‐‑‒–—―−", "-")
_WIDTHS = ("<wide>", "<narrow>")  # decompositions of Unicode that change the width alone


def kept_forms(lines: Iterable[str]) -> str:
    """Characters with a common form that training sources have often enough to be read as they are."""
    counts: Counter[str] = Counter()
    for line in islice(lines, COUNTED_LINES):
        counts.update(line)
    forms = ((char, _equal_form(char)) for char in counts if not char.isascii())
    return "".join(sorted(char for char, form in forms if form and counts[char] * RARE >= counts[form]))


class Folding(dict[int, str]):
    """A table for `str.translate` that folds typographic characters; it is filled when it meets a character.

    Quotation marks, apostrophes and characters of full or half width have the same meaning as their common forms. Those
    that the training sources have less than a tenth as often as the common form are read as it; the others, such as the
    full-width digits of a Japanese corpus, are kept, and the model stores which. Dashes and what Unicode's compatible
    form (NFKC, Annex 15) changes otherwise, such as ligatures and superscripts, may differ in meaning: they are read as
    their common form where no token of the model has them, and they would be unknown.

    Args:
        known: characters of the vocabulary; None: it has all, as a vocabulary of bytes.
        kept: a result of `kept_forms`; None, for models without one: all that the vocabulary has.
    """

    def __init__(self, known: frozenset[str] | None, kept: str | None) -> None:
        super().__init__()
        self._known, self._kept = known, kept

    def __missing__(self, code: int) -> str:
        char = chr(code)
        is_known = self._known is None or char in self._known
        form = _equal_form(char)
        is_kept = is_known if not form or self._kept is None else char in self._kept
        form = form or _DASHES.get(char, "") or unicodedata.normalize("NFKC", char)
        is_readable = self._known is None or self._known.issuperset(form)
        self[code] = char if is_kept or not is_readable or not form.isprintable() or " " in form else form
        return self[code]

    def fold(self, line: str) -> str:
        """A source line as the model reads it; the function is idempotent."""
        return line if line.isascii() else line.translate(self)


def _equal_form(char: str) -> str:
    """The common form of the same meaning, a character; empty if there is none."""
    if char in _QUOTES:
        return _QUOTES[char]
    width, _, code = unicodedata.decomposition(char).partition(" ")
    return chr(int(code, 16)) if width in _WIDTHS else ""


Normalisation = Literal["identity", "nfc", "nfkc"]

SPACE_MARK = "\u2581"  # sentencepiece's symbol for a space
SPACE_MARK_REPLACEMENT = "_"
# Every kind of normalisation replaces two characters that cannot be represented: U+2581, which sentencepiece uses for
# the space, becomes an underscore; a lone surrogate, which UTF-8 cannot encode, becomes U+FFFD.
_UNREPRESENTABLE = re.compile("[\u2581\ud800-\udfff]")


class TextForm(NamedTuple):
    """The form of the text that a tokenizer reads.

    Attributes:
        unicode: identity; or Unicode's composed form, canonical (nfc) or compatible (nfkc), Unicode Annex 15.
        lowercase: whether letters are lower-cased, by Unicode's rules for all languages (I becomes i in Turkish too).
    """

    unicode: Normalisation = "identity"
    lowercase: bool = False

    def normalise(self, line: str) -> str:
        """The line in this form; the function is idempotent."""
        if not line.isascii():
            line = self._composed(line)
            if _UNREPRESENTABLE.search(line):
                line = _UNREPRESENTABLE.sub(
                    lambda match: SPACE_MARK_REPLACEMENT if match[0] == SPACE_MARK else "\ufffd", line
                )
        if not self.lowercase:
            return line
        return self._composed(line.lower())  # İ becomes a letter and a combining dot

    def _composed(self, line: str) -> str:
        match self.unicode:
            case "nfc":
                return unicodedata.normalize("NFC", line)
            case "nfkc":
                return unicodedata.normalize("NFKC", line)
        return line


AS_IT_IS = TextForm()


def count_unrepresentable(line: str) -> int:
    """The number of characters in the line that every kind of normalisation replaces."""
    return len(_UNREPRESENTABLE.findall(line))
