"""Glossaries: terms with the forms that a translation may have."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mtkit.documents.glossary import read_terms
from mtkit.errors import DataError
from mtkit.text.normalise import plain

MAX_TERM = 200  # characters
_KEY = 3  # first characters of a term that it is found by
_NO_WORDS = "\u0e00"  # scripts from here to Hangul are mostly written without spaces


class Term(NamedTuple):
    """A term of a glossary in a source line: the characters from `start` to `end`, and its allowed translations."""

    start: int
    end: int
    forms: tuple[str, ...]


@dataclass
class Glossary:
    """Terms by their text without case.

    Attributes:
        terms: the allowed forms of each source term, the preferred one first.
    """

    terms: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _places: dict[str, str] = field(default_factory=dict)  # of each term, for messages
    _by_key: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, terms: Iterable[Sequence[str]]) -> Glossary:
        """The glossary of terms, each followed by its allowed forms; errors as `add`, with the number of the term."""
        glossary = cls()
        for number, (source, *forms) in enumerate(terms, start=1):
            glossary.add(source, forms, f"term {number}")
        return glossary

    def add(self, source: str, forms: Iterable[str], place: str) -> None:
        """Add a term.

        Raises:
            DataError: it is blank or too long, or contradicts an earlier one.
        """
        source = plain(source)
        allowed = tuple(dict.fromkeys(filter(None, map(plain, forms)))) or (source,)
        if not source or max(map(len, (source, *allowed))) > MAX_TERM:
            raise DataError(f"{place}: a term has 1 to {MAX_TERM} characters; shorten or omit it")
        key = source.casefold()
        if (known := self.terms.get(key)) is not None and set(known) != set(allowed):
            raise DataError(
                f"{place}: {source!r} is {allowed[0]!r} here and {known[0]!r} in {self._places[key]}; omit one, or "
                "allow both forms, separated by |"
            )
        if known is None:
            self.terms[key], self._places[key] = allowed, place
            bisect.insort(self._by_key.setdefault(key[:_KEY], []), key, key=lambda each: -len(each))

    def find(self, line: str) -> list[Term]:
        """The terms in a line, the longest ones first where they overlap; a term is whole words."""
        folded = line.casefold()
        if len(folded) != len(line):
            folded = line.lower()
        terms, end = [], 0
        for start in range(len(folded) if len(folded) == len(line) else 0):
            if start < end or not is_word_boundary(folded, start):
                continue
            keys = (key for size in range(_KEY, 0, -1) for key in self._by_key.get(folded[start : start + size], ()))
            for key in keys:
                if folded.startswith(key, start) and is_word_boundary(folded, start + len(key)):
                    end = start + len(key)
                    terms.append(Term(start, end, self.terms[key]))
                    break
        return terms


def is_word_boundary(text: str, index: int) -> bool:
    """Return whether a word may begin or end before the character at an index."""
    if index in (0, len(text)):
        return True
    before, after = text[index - 1], text[index]
    return not (before.isalnum() and after.isalnum()) or max(before, after) >= _NO_WORDS


def honoured_form(term: Term, hyp: str) -> str | None:
    """The allowed form that a translation has, as whole words; None without one. The first letter may be a capital."""
    written = ((form, text) for form in term.forms for text in (form, form[:1].upper() + form[1:]))
    return next((form for form, text in written if _contains_words(hyp, text)), None)


def _contains_words(text: str, words: str) -> bool:
    start = text.find(words)
    while start >= 0 and not (is_word_boundary(text, start) and is_word_boundary(text, start + len(words))):
        start = text.find(words, start + 1)
    return start >= 0


def read_glossary(paths: Sequence[Path], src_lang: str, tgt_lang: str) -> Glossary:
    """Read glossary files, of which no two may contradict each other.

    Raises:
        DataError: a file has another form, no terms, or contradictions; with file and line.
        MissingInputError, ReadWriteError: as `read_lines`.
    """
    glossary = Glossary()
    for path in paths:
        count = 0
        for place, source, forms in read_terms(path, src_lang, tgt_lang):
            glossary.add(source, forms, place)
            count += 1
        if not count:
            raise DataError(f"{path}: no terms from {src_lang} to {tgt_lang}; give another file")
    return glossary
