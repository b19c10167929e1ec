"""A document that is decoded and checked while it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, TypeVar

from mtkit.documents.reading import CHUNK, decode_chunks, encoding_of
from mtkit.documents.unit import DocumentFormat, StretchError
from mtkit.errors import DataError
from mtkit.text.structure.xml_check import XmlCheck, XmlError

T = TypeVar("T")


class DocumentSource:
    """A file that is decoded and checked while it is read.

    Attributes:
        name: in messages.
        form: the format.
        encoding: of the file.
    """

    def __init__(self, file: IO[bytes], name: str, form: DocumentFormat, root: str | None) -> None:
        """Read the beginning of the file.

        Args:
            file: the content.
            name: in messages.
            form: the format.
            root: name of the outermost element of XML; None: any.

        Raises:
            DataError: the file declares an encoding that is unknown.
        """
        self._head = file.read(CHUNK)
        self._file, self._root = file, root
        self.name, self.form = name, form
        self.encoding = encoding_of(self._head, name, is_xml=form.is_xml, is_po=name.lower().endswith((".po", ".pot")))

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
            for text in decode_chunks(self._bytes(), self.encoding, self.name):
                if check is not None:
                    check.feed(text, is_last=not text)
                    self._check_root(check.root)
                yield text
        except XmlError as error:
            raise DataError(f"{self.name}:{error.line}: {error}") from error

    def _check_root(self, root: str | None) -> None:
        if self._root is not None and root not in (None, self._root):
            raise XmlError(1, f"the outermost element is {root}, not {self._root}; is the name right?")

    def _bytes(self) -> Iterator[bytes]:
        chunk = self._head
        while chunk:
            yield chunk
            chunk = self._file.read(CHUNK)
