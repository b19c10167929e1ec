"""Folding of typographic characters on the source side: a model reads the form that it was trained on.

Quotation marks, apostrophes and characters of full or half width have the same meaning as their common forms. Those
that the training sources have less than a tenth as often as the common form are read as it; the others, such as the
full-width digits of a Japanese corpus, are kept, and the model stores which. Dashes and what Unicode's compatible form
(NFKC, Annex 15) changes otherwise, such as ligatures and superscripts, may differ in meaning: they are read as their
common form where no token of the model has them, and they would be unknown.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import islice

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
    """A table for `str.translate` that is filled when it meets a character.

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
