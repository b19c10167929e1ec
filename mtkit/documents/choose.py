"""The table of document formats by the ends of names, and the names of plain text, which has lines alone."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from mtkit.documents import formats
from mtkit.documents.format import DocumentFormat, DocumentOptions
from mtkit.documents.reading import known_encoding
from mtkit.errors import UsageError
from mtkit.text.language import CODE, is_language, language_code
from mtkit.text.lines import COMPRESSION_SUFFIXES

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
    **dict.fromkeys((".doc", ".odt", ".rtf"), "save it as .docx"),
    **dict.fromkeys((".xls", ".xlsm", ".xlsx", ".ods", ".numbers"), "save it as .tsv"),
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
    path: Path, *, src_lang: str, tgt_lang: str, fields: Sequence[str] = (), encoding: str | None = None
) -> DocumentFormat:
    """The format of a document by its name.

    Args:
        path: the document.
        src_lang, tgt_lang: languages of TMX; of XLIFF the target language; an encoding is guessed by them.
        fields: columns of a table or keys of JSON; none: all.
        encoding: of the document; None: as it declares.

    Raises:
        UsageError: the name is of no document, has no fields, or the encoding is unknown or cannot be stated.
    """
    suffix = document_suffix(path)
    form = format_table().get(suffix)
    if form is None:
        known = ", ".join(suffixes(lambda each: each.has_texts))
        raise UsageError(f"{path}: not the name of a document; the names end with {known}")
    if fields and not form.has_fields:
        known = ", ".join(suffixes(lambda each: each.has_fields))
        raise UsageError(f"{path}: --field names columns or keys of {known}; omit it")
    if encoding is not None:
        if form.is_archive:
            raise UsageError(f"{path}: its parts declare their encoding; omit --encoding")
        try:
            known_encoding(encoding)
        except LookupError as error:
            raise UsageError(f"--encoding {encoding}: unknown; such as windows-1252, iso-8859-2 or utf-16") from error
    return form(DocumentOptions(suffix=suffix, src_lang=src_lang, tgt_lang=tgt_lang, fields=fields, encoding=encoding))


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
    bare = path
    while bare.suffix.lower() in COMPRESSION_SUFFIXES:
        bare = bare.with_suffix("")
    as_lines = f"to translate its lines as plain text, give - < {path}"
    if not _is_plain_name(bare) and not _is_plain_name(bare, languages()):
        suffix = bare.suffix.lower()
        if bare != path and is_document(bare):
            raise UsageError(f"translate: {path}: decompress the document, and give {bare.name}; {as_lines}")
        remedy = REMEDIES.get(suffix, f"documents end with {', '.join(suffixes(lambda each: each.has_texts))}")
        raise UsageError(f"translate: {path}: {suffix} is no format that is translated; {remedy}; {as_lines}")
    if path.is_file() and (match := _STRUCTURE.match(_head(path))) is not None:
        kind = "XML or HTML" if match["xml"] else "JSON"
        raise UsageError(f"translate: {path}: begins as {kind}, and is no plain text by its content; {as_lines}")


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""  # reported by the reader of the lines
