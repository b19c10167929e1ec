"""The base class of document formats: names, text units, pairs, encoding and archive of a kind of files."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from mtkit.documents.reading import Survey, split_stretches
from mtkit.documents.unit import TextUnit
from mtkit.text.marked import Marked

XML_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""")


@dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """Facts about a document that are known before it is read.

    Attributes:
        suffix: end of its name, in lower case.
        src_lang, tgt_lang: languages of the translation.
        fields: columns of a table or keys of JSON; none: all.
        encoding: name that the user states; None: the encoding that the document declares.
    """

    suffix: str = ""
    src_lang: str = ""
    tgt_lang: str = ""
    fields: Sequence[str] = ()
    encoding: str | None = None


class DocumentFormat:
    """A format of documents. A subclass with suffixes in `formats/` is a row of the table of all formats (`choose.py`).

    Text is found and replaced by offsets, so that all other bytes stay and memory is bounded; libraries that parse a
    document write it in their own way. Each format overrides what differs from a text in UTF-8 that is one stretch.

    Attributes:
        suffixes: ends of names, in lower case; none: texts inside requests, and no files, have this format.
        is_xml: the text is XML, which is checked while it is read.
        root: name of the outermost element of XML; None: any.
        has_references: a character that the encoding lacks is written as a reference, such as `&#8222;`.
        has_texts: `units` finds texts to translate.
        has_pairs: `pairs` or `file_pairs` finds sources and their translations.
        has_fields: the texts of some columns or keys alone can be chosen.
        is_archive: the files are zip archives, of which some members have text.
        is_plain: the lines of a file are its texts: `translate` reads them as lines, and the server as a document.
        encoding: of the document that is being read.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    is_xml: ClassVar[bool] = False
    root: ClassVar[str | None] = None
    has_references: ClassVar[bool] = False
    has_texts: ClassVar[bool] = True
    has_pairs: ClassVar[bool] = False
    has_fields: ClassVar[bool] = False
    is_archive: ClassVar[bool] = False
    is_plain: ClassVar[bool] = False

    def __init__(self, options: DocumentOptions = DocumentOptions()) -> None:
        self.options = options
        self.encoding = "utf-8"

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """Stretches of a text that comes in chunks; their concatenation is the text. Default: one of all."""
        return split_stretches(chunks, lambda text: ())

    def units(self, stretch: str) -> list[TextUnit]:
        """The text units of the next stretch.

        Raises:
            StretchError: the stretch is not of this format.
        """
        raise NotImplementedError

    def pairs(self, stretch: str) -> Iterator[tuple[Marked, Marked]]:
        """Sources and translations of the next stretch; errors as `units`."""
        raise NotImplementedError

    def file_pairs(self, path: Path) -> Iterator[tuple[int, str, str]] | None:
        """(line, source, target) of a file that is no stream of text; None: `pairs` has them."""
        return None

    def declared_encoding(self, head: bytes) -> str | None:
        """The encoding that the first bytes of a document declare; None if they declare none."""
        match = XML_ENCODING.search(head) if self.is_xml else None
        return None if match is None else match[1].decode("ascii")

    def choose_encoding(self, head: bytes, survey: Callable[[], Survey]) -> str:
        """The encoding of a document without a byte order mark, of which the user states none.

        Args:
            head: the first bytes.
            survey: reads the whole document, to see whether it is UTF-8.
        """
        return self.declared_encoding(head) or "utf-8"

    def guessed_languages(self) -> tuple[str, ...]:
        """The languages by which the encoding is guessed of a document that is not UTF-8; none: it is refused."""
        return ()

    def open_archive(self, path: Path) -> AbstractContextManager[tuple[zipfile.ZipFile, dict[str, str | None]]]:
        """Open a zip archive; DataError if it is none of this format.

        Returns:
            Context of the archive, and its members with text in order, with the name of their outermost element if that
            is checked.
        """
        raise NotImplementedError
