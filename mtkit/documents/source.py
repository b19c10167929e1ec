"""A document that is decoded and checked while it is read."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import IO, TypeVar

from mtkit.documents.format import DocumentFormat
from mtkit.documents.markup import XmlCheck, XmlError
from mtkit.documents.reading import (
    BYTE_ORDER_MARKS,
    CHUNK,
    decode_chunks,
    guess_encoding,
    known_encoding,
    survey_bytes,
)
from mtkit.documents.unit import StretchError
from mtkit.errors import DataError, UsageError

T = TypeVar("T")
Report = Callable[[str], None]


def ignore(note: str) -> None:
    """Drop a note about a document."""


class DocumentSource:
    """A file that is decoded and checked while it is read.

    Attributes:
        name: in messages.
        form: the format, whose `encoding` is that of the file.
    """

    def __init__(
        self, file: IO[bytes], name: str, form: DocumentFormat, root: str | None = None, report: Report = ignore
    ) -> None:
        """Read the beginning of the file.

        Args:
            file: the content.
            name: in messages.
            form: the format.
            root: name of the outermost element of XML; None: any.
            report: receives the sentence that an encoding was guessed.

        Raises:
            DataError: the file declares an encoding that is unknown.
            UsageError: it begins with a byte order mark of another encoding than the user states.
        """
        self._head = file.read(CHUNK)
        self._file, self._root = file, root
        self.name, self.form = name, form
        form.encoding = self._encoding(report)

    def _encoding(self, report: Report) -> str:
        """The encoding by a byte order mark, the user, the document, or a guess."""
        stated = self.form.options.encoding
        known = None if stated is None else known_encoding(stated)
        for mark, encoding in BYTE_ORDER_MARKS:
            if self._head.startswith(mark):
                if known is not None and not encoding.startswith(codecs.lookup(known).name):
                    raise UsageError(
                        f"--encoding {stated}: {self.name} begins with the byte order mark of {encoding}; omit it"
                    )
                return encoding
        if known is not None:
            return known
        survey = cache(lambda: survey_bytes(self._file))
        try:
            encoding = known_encoding(self.form.choose_encoding(self._head, survey))
        except LookupError as error:
            raise DataError(
                f"{self.name}: the encoding {str(error.args[0])[:40]} is unknown; convert the file to UTF-8, or name "
                "its encoding by --encoding"
            ) from error
        languages = self.form.guessed_languages()
        if not languages or survey().is_utf8 or (guess := guess_encoding(survey().sample, languages)) is None:
            return encoding
        report(f"{self.name}: not UTF-8, and read as {guess}, which is a guess; --encoding NAME states another")
        return guess

    def read(self, extract: Callable[[str], T]) -> Iterator[tuple[int, str, T]]:
        """(number of its first line, text, what `extract` makes of it) for each stretch.

        Raises:
            DataError: the document is not of its format, or cannot be decoded.
        """
        line, stretch = 1, ""
        try:
            for stretch in self.form.stretches(self._chunks()):
                yield line, stretch, extract(stretch)
                line += stretch.count("\n")
        except StretchError as error:
            line += stretch.count("\n", 0, error.offset)
            raise DataError(f"{self.name}:{line}: {error}") from error

    def _chunks(self) -> Iterator[str]:
        """The text, checked if it is XML."""
        check = XmlCheck() if self.form.is_xml else None
        try:
            chunks = itertools.chain([self._head], iter(partial(self._file.read, CHUNK), b""))
            for text in decode_chunks(chunks, self.form.encoding, self.name):
                if check is not None:
                    check.feed(text, is_last=not text)
                    self._check_root(check.root)
                yield text
        except XmlError as error:
            raise DataError(f"{self.name}:{error.line}: {error}") from error

    def _check_root(self, root: str | None) -> None:
        if self._root is not None and root not in (None, self._root):
            raise XmlError(1, f"the outermost element is {root}, not {self._root}; is the name right?")
