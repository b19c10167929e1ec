"""Document formats: their base class, their table by the ends of names, and the names of plain text.

Plain text, which has lines alone, is no document for `mtkit translate`.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from mtkit.documents import formats
from mtkit.documents.reading import Survey, known_encoding, split_stretches
from mtkit.documents.unit import TextUnit
from mtkit.errors import UsageError
from mtkit.text.language import CODE, is_language, language_code
from mtkit.text.lines import without_compression

XML_ENCODING = re.compile(rb"""\A\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["']""")


@dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """Facts about a document that are known before it is read.

    Attributes:
        suffix: end of its name, in lower case.
        src_lang, tgt_lang: languages of the translation.
        fields: columns of a table or keys of JSON; none: all.
        encoding: name that the user states; None: the encoding that the document declares.
        attributes: texts of attributes, such as `alt`, are translated too.
    """

    suffix: str = ""
    src_lang: str = ""
    tgt_lang: str = ""
    fields: Sequence[str] = ()
    encoding: str | None = None
    attributes: bool = False

    @property
    def side_names(self) -> Sequence[tuple[str, str]]:
        """Names of the columns or keys of source and target; of several the first counts that is there."""
        if self.fields:
            return [(self.fields[0], self.fields[1])]
        return [("src", "tgt"), ("source", "target"), (self.src_lang, self.tgt_lang)]


class DocumentFormat:
    """A format of documents. A subclass with suffixes in `formats/` is a row of `format_table`.

    Text is found and replaced by offsets, so that all other bytes stay and memory is bounded; libraries that parse a
    document write it in their own way. Each format overrides what differs from a text in UTF-8 that is one stretch.

    Attributes:
        suffixes: ends of names, in lower case; none: texts inside requests, and no files, have this format.
        is_xml: the text is XML, which is checked while it is read.
        root: name of the outermost element of XML; None: any.
        has_references: a character that the encoding lacks is written as a reference, such as `&#8222;`.
        has_texts: `units` finds texts to translate.
        has_pairs: `pairs` or `file_pairs` finds sources and their translations.
        has_columns: the sides of pairs are columns or keys, which `options.fields` may name.
        has_fields: the texts of some columns or keys alone can be chosen.
        has_attributes: with `options.attributes`, `units` finds the texts of attributes alone.
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
    has_columns: ClassVar[bool] = False
    has_fields: ClassVar[bool] = False
    has_attributes: ClassVar[bool] = False
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

    def pair_stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """Stretches for `pairs`, which may be longer than those for `units`."""
        return self.stretches(chunks)

    def pairs(self, stretch: str, line: int) -> Iterator[tuple[int, str, str]]:
        """(line, source, translation) of the pairs of the next stretch, without marks; a side may be empty.

        Errors as `units`.

        Args:
            line: number of the first line of the stretch.
        """
        raise NotImplementedError

    def file_pairs(self, path: Path) -> Iterator[tuple[int, str, str]] | None:
        """(line, source, target) of a file that is no stream of text, as `pairs`; None: that has them."""
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


# last parts of the names of text files, each perhaps with a number: ref0, bpe32k
_PLAIN = re.compile(
    r"(txt|text|source|src|target|tgt|trg|reference|refs?|hypothes[ie]s|hyps?|mt|pe|sys|out|output|in|input|raw|plain|"
    r"norm|clean|truecased?|true|tc|lc|lower|tok|tokens|tokenized|detok|bpe|spm?|wordpiece|wp|pieces|sentences|sents?|"
    r"snt|segs?|lines|train|tune|valid|val|devtest|dev|test|mono|bt|beam|part)?[-_]?(\d[\d._-]*[km]?)?",
    re.IGNORECASE,
)
_SUBTAGS = re.compile(r"[a-z]{2,3}([-_][A-Z][a-z]{3})?([-_]([A-Z]{2}|[0-9]{3}))?")  # of any language: kmr_Latn, pt-BR
_STRUCTURE = re.compile(rb"(\xef\xbb\xbf)?\s*(?:(?P<xml><\?xml\b|<!doctype\b|<TS\b)|(?P<json>\{[ \t\r]*\n\s*\"))", re.I)
_HEAD = 4096  # bytes in which structure is looked for
REMEDIES = {  # for files of other programs
    ".pdf": "take its text out, for example with pdftotext",
    **dict.fromkeys((".doc", ".rtf"), "save it as .docx"),
    **dict.fromkeys((".xls", ".xlsm", ".ods", ".numbers"), "save it as .xlsx or .tsv"),
    **dict.fromkeys((".jsonl", ".ndjson"), "add --jsonl-input, if each line is an object with a text"),
}


@cache
def format_table() -> dict[str, type[DocumentFormat]]:
    """The formats by suffix: each class in a module of `formats/` that states suffixes."""
    modules = [
        importlib.import_module(f"{formats.__name__}.{each.name}") for each in pkgutil.iter_modules(formats.__path__)
    ]
    classes = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    return {suffix: each for each in classes if issubclass(each, DocumentFormat) for suffix in each.suffixes}


def suffixes(has: Callable[[type[DocumentFormat]], bool]) -> tuple[str, ...]:
    """Suffixes of the formats for which `has` is true, such as those with pairs."""
    return tuple(sorted(suffix for suffix, each in format_table().items() if has(each)))


def document_suffix(path: Path) -> str:
    """The end of a name in the table of formats, in lower case; without one, what follows its last dot."""
    name, suffix = path.name.lower(), path.suffix.lower()
    return next((each for each in format_table() if name.endswith(each)), suffix)


def is_document(path: Path) -> bool:
    """Return whether `translate` takes a file as a document, by its name, instead of line by line."""
    form = format_table().get(document_suffix(path))
    return form is not None and form.has_texts and not form.is_plain


def format_of(
    path: Path,
    *,
    src_lang: str,
    tgt_lang: str,
    fields: Sequence[str] = (),
    encoding: str | None = None,
    attributes: bool = False,
) -> DocumentFormat:
    """The format of a document by its name.

    Args:
        path: the document.
        src_lang, tgt_lang: languages of TMX; of XLIFF the target language; an encoding is guessed by them.
        fields: columns of a table or keys of JSON; none: all.
        encoding: of the document; None: as it declares.
        attributes: translate texts of attributes too.

    Raises:
        UsageError: the name is of no document, has no fields or attributes; the encoding is unknown or cannot be
            stated.
    """
    suffix = document_suffix(path)
    form = format_table().get(suffix)
    if form is None:
        known = ", ".join(suffixes(lambda each: each.has_texts))
        raise UsageError(f"{path}: not the name of a document; the names end with {known}")
    if fields and not form.has_fields:
        known = ", ".join(suffixes(lambda each: each.has_fields))
        raise UsageError(f"{path}: --field names columns or keys of {known}; omit it")
    if attributes and not form.has_attributes:
        known = ", ".join(suffixes(lambda each: each.has_attributes))
        raise UsageError(f"{path}: --attributes is of {known}; omit it")
    if encoding is not None:
        if form.is_archive:
            raise UsageError(f"{path}: its parts declare their encoding; omit --encoding")
        try:
            known_encoding(encoding)
        except LookupError as error:
            raise UsageError(f"--encoding {encoding}: unknown; such as windows-1252, iso-8859-2 or utf-16") from error
    options = DocumentOptions(
        suffix=suffix,
        src_lang=src_lang,
        tgt_lang=tgt_lang,
        fields=fields,
        encoding=encoding,
        attributes=attributes,
    )
    return form(options)


def _is_plain_name(path: Path, languages: Iterable[str] = ()) -> bool:
    """Return whether a name without compression ends as those of text files do: with nothing, a role or a language."""
    if (form := format_table().get(document_suffix(path))) is not None:
        return form.is_plain  # such as .arb, which is a code of Arabic, too
    end = path.suffix[1:]
    if not end or _PLAIN.fullmatch(end):
        return True
    codes = end.split("-") if end.count("-") == 1 and "_" not in end else [end]  # de-en
    is_code = all(CODE.fullmatch(code) and language_code(code) for code in codes)
    is_subtag = _SUBTAGS.fullmatch(end) is not None and not end.isalpha()
    return is_code or is_subtag or any(is_language(end, each) or end == each for each in languages)


def require_plain_text(path: Path, languages: Callable[[], Iterable[str]]) -> None:
    """Check that a file may be read as lines: others would lose their structure.

    Args:
        path: the file, compressed or not; - is stdin.
        languages: codes that the name may end with, besides those that are known.

    Raises:
        UsageError: the name ends otherwise, or the file begins like XML or JSON.
    """
    bare = without_compression(path)
    as_lines = f"to translate its lines as plain text, give - < {path}"
    if not _is_plain_name(bare) and not _is_plain_name(bare, languages()):
        suffix = bare.suffix.lower()
        if bare != path and is_document(bare):
            raise UsageError(f"translate: {path}: decompress the document, and give {bare.name}; {as_lines}")
        remedy = REMEDIES.get(suffix, f"documents end with {', '.join(suffixes(lambda each: each.has_texts))}")
        raise UsageError(f"translate: {path}: {suffix} is no format that is translated; {remedy}; {as_lines}")
    head = b""
    if path.is_file():
        with suppress(OSError), path.open("rb") as file:  # the reader of the lines reports the error
            head = file.read(_HEAD)
    if (match := _STRUCTURE.match(head)) is not None:
        kind = "XML or HTML" if match["xml"] else "JSON"
        raise UsageError(f"translate: {path}: begins as {kind}, and is no plain text by its content; {as_lines}")
