"""Glossaries: terms with the forms that a translation may have, from CSV, TSV, TBX, or a list of words to keep.

A row of CSV or TSV is a source term and its translation; several allowed forms are separated by | or stand in further
columns, the preferred one first. A term without a translation, as each line of a .txt file, is not translated. Of TBX
(ISO 30042) the terms of both languages of each entry are read.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mtkit.errors import DataError
from mtkit.io.files import translate_read_errors
from mtkit.text.form.plain import plain
from mtkit.text.lines import read_lines

MAX_TBX_BYTES = 256 << 20
MAX_TERM = 200  # characters
_KEY = 3  # first characters of a term that it is found by
_HEADER = ("source", "src", "term")
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
        read = {".csv": _rows, ".tsv": _rows, ".txt": _kept, ".tbx": _tbx}.get(path.suffix.lower())
        if read is None:
            raise DataError(f"{path}: a glossary is .csv, .tsv or .tbx, a list of words to keep .txt; rename it")
        count = 0
        for place, source, forms in read(path, src_lang, tgt_lang):
            glossary.add(source, forms, place)
            count += 1
        if not count:
            raise DataError(f"{path}: no terms from {src_lang} to {tgt_lang}; give another file")
    return glossary


Entries = Iterator[tuple[str, str, list[str]]]  # place, source term, allowed forms


def _kept(path: Path, src_lang: str, tgt_lang: str) -> Entries:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield f"{path}:{number}", line, []


def _rows(path: Path, src_lang: str, tgt_lang: str) -> Entries:
    is_tsv = path.suffix.lower() == ".tsv"
    first = next(read_lines(path), "")
    comma = "\t" if is_tsv else max(",;\t", key=first.count)
    for number, line in enumerate(read_lines(path), start=1):
        try:
            cells = [cell.strip() for cell in cells_of(line, comma, has_quotes=not is_tsv)]
        except DataError as error:
            raise DataError(f"{path}:{number}: {error}") from error
        is_header = number == 1 and (cells[:1] or [""])[0].casefold() in (*_HEADER, src_lang.casefold())
        if any(cells) and not is_header:
            yield f"{path}:{number}", cells[0], [form for cell in cells[1:] for form in cell.split("|")]


def cells_of(line: str, delimiter: str, *, has_quotes: bool = True) -> list[str]:
    """The cells of one line of CSV or, without quotes, of TSV.

    Raises:
        DataError: a quote is not closed in the line, or text follows a closing one, or a cell has a line break.
    """
    import csv

    if not has_quotes:
        return line.split(delimiter)
    try:
        cells = next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        if "end of data" not in str(error):
            raise DataError(f"not CSV: {error}; quote cells with commas and quotes") from error
        cells = ["\r"]  # what follows the quote is in the next lines
    if any("\r" in cell for cell in cells):
        raise DataError("a quote that is never closed; close it in its line, since a term has no line break")
    return cells


def _tbx(path: Path, src_lang: str, tgt_lang: str) -> Entries:
    """The terms of TBX; entities are refused, so that a small file stays small."""
    from xml.etree import ElementTree

    from mtkit.text.language import is_language
    from mtkit.text.structure.xml_check import XmlCheck, XmlError

    with translate_read_errors(path):
        if path.stat().st_size > MAX_TBX_BYTES:
            raise DataError(f"{path}: more than {MAX_TBX_BYTES >> 20} MiB; split it")
        content = path.read_bytes()
    try:
        XmlCheck(encoding=None).feed(content, is_last=True)
        root = ElementTree.fromstring(content)
    except XmlError as error:
        raise DataError(f"{path}:{error.line}: {error}; export it as TBX again") from error
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise DataError(f"{path}: not XML: {error}; export it as TBX again") from error
    entries = [each for each in root.iter() if _tag(each.tag) in ("termEntry", "conceptEntry")]
    for number, entry in enumerate(entries, start=1):
        sources: list[str] = []
        forms: list[str] = []
        for language in (each for each in entry.iter() if _tag(each.tag) in ("langSet", "langSec")):
            code = language.get("{http://www.w3.org/XML/1998/namespace}lang", "")
            texts = ["".join(each.itertext()) for each in language.iter() if _tag(each.tag) == "term"]
            for wanted, terms in ((src_lang, sources), (tgt_lang, forms)):
                terms += texts if is_language(code, wanted) else []
        for source in sources if forms else []:
            yield f"{path}: entry {number}", source, forms


def _tag(name: object) -> str:
    return str(name).rpartition("}")[2]
