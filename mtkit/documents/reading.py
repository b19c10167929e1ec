"""Reading of documents: encodings, decoding in chunks, checks of XML, stretches of elements, entries and records."""

from __future__ import annotations

import codecs
import itertools
import locale
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import IO, TYPE_CHECKING, NamedTuple, TypeVar

from mtkit.documents.markup import XmlCheck, XmlError
from mtkit.documents.unit import StretchError
from mtkit.errors import DataError, UsageError
from mtkit.text.language import language_code

if TYPE_CHECKING:
    from mtkit.documents.format import DocumentFormat

_CONVERT = "convert the file, for example with iconv, or name its encoding (--encoding, or encoding in a recipe)"
MAX_STRETCH = 1 << 26  # characters; longer ones are refused, so that memory is bounded


def decode_chunks(chunks: Iterable[bytes], encoding: str, name: str) -> Iterator[str]:
    """The text of chunks of bytes, line ends and byte order mark included; the last one, and no other, is empty.

    Raises:
        DataError: a byte is not of this encoding, or the text has a NUL.
    """
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    for chunk in itertools.chain(filter(None, chunks), [b""]):
        try:
            text = decoder.decode(chunk, not chunk)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            raise DataError(f"{name}:{line}: a byte that is not {encoding}; {_CONVERT}") from error
        except UnicodeError as error:  # UTF-16 without a byte order mark, as its declaration says
            raise DataError(f"{name}:{line}: is not {encoding} ({error}); {_CONVERT}") from error
        if "\0" in text:
            line += text[: text.index("\0")].count("\n")
            raise DataError(f"{name}:{line}: a NUL character; is this a text?")
        line += text.count("\n")
        if text:
            yield text
    yield ""


def split_stretches(chunks: Iterable[str], ends: Callable[[str], Iterable[int]]) -> Iterator[str]:
    """Stretches of a text that comes in chunks; the last one has what follows the last end.

    Args:
        chunks: the text.
        ends: offsets where stretches end, increasing, in a text that begins with a stretch and may be incomplete.

    Raises:
        StretchError: a stretch has more than MAX_STRETCH characters.
    """
    rest, wait = "", 0
    for chunk in chunks:
        rest += chunk
        if len(rest) < wait:
            continue
        position = 0
        for end in ends(rest):
            yield rest[position:end]
            position = end
        rest = rest[position:]
        wait = 0 if position else 2 * len(rest)  # so that time is linear where a stretch has many chunks
        if len(rest) > MAX_STRETCH:
            raise StretchError(0, f"more than {MAX_STRETCH >> 20} Mi characters without an end; split the document")
    position = 0
    for end in ends(rest):
        yield rest[position:end]
        position = end
    yield rest[position:]


def element_stretches(chunks: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    """Stretches that end with the end tags of XML elements, which are not nested; errors as `split_stretches`."""
    tag = re.compile(
        rf"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|</(?:[\w.-]+:)?(?:{'|'.join(names)})\s*>", re.DOTALL
    )
    return split_stretches(chunks, lambda text: (m.end() for m in tag.finditer(text) if m[0][1] == "/"))


CHUNK = 1 << 20  # bytes read at a time
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ASCII = "".join(map(chr, range(32, 127))) + r"\u0041"
_SAMPLE = 1 << 16  # bytes by which an encoding is guessed
# encodings in which text was written before UTF-8, by the character set that Python's `locale` has for a language
_CANDIDATES = {
    **dict.fromkeys(("ISO8859-1", "ISO8859-15", "ISO8859-14"), ("windows-1252",)),
    "ISO8859-2": ("windows-1250", "iso8859-2"),
    **dict.fromkeys(("ISO8859-4", "ISO8859-13"), ("windows-1257",)),
    **dict.fromkeys(("ISO8859-5", "KOI8-R", "CP1251"), ("windows-1251", "koi8-r", "iso8859-5", "cp866")),
    "KOI8-U": ("windows-1251", "koi8-u"),
    **dict.fromkeys(("ISO8859-6", "CP1256"), ("windows-1256", "iso8859-6")),
    "ISO8859-7": ("windows-1253",),
    "ISO8859-8": ("windows-1255",),
    "ISO8859-9": ("windows-1254",),
    **dict.fromkeys(("TIS620", "ISO8859-11"), ("cp874",)),
    "TCVN": ("windows-1258",),
    "eucJP": ("cp932", "euc-jp"),
    "eucKR": ("cp949",),
    **dict.fromkeys(("eucCN", "gb2312", "big5"), ("gb18030", "big5hkscs")),
}
_UNICODE_LOCALES = {"ru": "KOI8-R", "sr": "ISO8859-5", "fa": "CP1256"}  # `locale` has UTF-8 for these languages
_LATIN = {"windows-1250", "windows-1254", "windows-1257", "windows-1258"}  # with most letters of windows-1252


class Survey(NamedTuple):
    """The bytes of a whole document.

    Attributes:
        is_ascii: all are ASCII.
        is_utf8: all are UTF-8.
        sample: the first lines that have other bytes than ASCII.
    """

    is_ascii: bool
    is_utf8: bool
    sample: bytes


def survey_bytes(file: IO[bytes]) -> Survey:
    """Read a file from its beginning, and return to where it was."""
    position = file.tell()
    file.seek(0)
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_ascii = is_utf8 = True
    sample = bytearray()
    while chunk := file.read(CHUNK):
        if is_utf8:
            is_utf8 = _decodes(decoder, chunk)
        if not chunk.isascii():
            is_ascii = False
            lines = chunk.split(b"\n")
            if len(chunk) == CHUNK:
                del lines[-1]  # it may be cut
            for line in lines if len(sample) < _SAMPLE else ():
                sample += b"" if line.isascii() else line + b"\n"
    file.seek(position)
    return Survey(is_ascii, is_utf8 and _decodes(decoder, b"", is_last=True), bytes(sample[:_SAMPLE]))


def _decodes(decoder: codecs.IncrementalDecoder, chunk: bytes, *, is_last: bool = False) -> bool:
    try:
        decoder.decode(chunk, is_last)
    except UnicodeDecodeError:
        return False
    return True


def known_encoding(label: str) -> str:
    """The name of an encoding that documents may have: a superset of ASCII, UTF-16 or UTF-32, as Python knows them.

    Raises:
        LookupError: the encoding is unknown, or another one, such as utf-7.
    """
    try:
        name = codecs.lookup(label).name
        encoded = _ASCII.encode(name, "xmlcharrefreplace")
        is_known = encoded == _ASCII.encode() and encoded.decode(name) == _ASCII
    except (LookupError, ValueError):
        is_known, name = False, ""
    if not is_known and not name.startswith(("utf-16", "utf-32", "utf-8-sig")):
        raise LookupError(label)
    return label if name != "utf-8-sig" else "utf-8"


def guess_encoding(sample: bytes, languages: Iterable[str]) -> str | None:
    """The encoding of text that is not UTF-8; None if none is probable.

    The languages leave few encodings, of which charset-normalizer chooses. All bytes of a sample are valid in most
    encodings of one byte, so that without languages it takes Spanish in windows-1252 for windows-1250 or others.
    """
    candidates = [each for each in _candidates(languages) if _can_decode(sample, each)]
    if {"windows-1250", "iso8859-2"} <= {*candidates}:  # windows-1250 has letters among 0x80 to 0x9f, ISO 8859 controls
        candidates.remove("iso8859-2" if any(0x80 <= byte < 0xA0 for byte in sample) else "windows-1250")
    if len(candidates) == 1:
        return candidates[0]
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_isolation=candidates or None).best()
    if best is None:
        return next(iter(candidates), None)
    return next((each for each in candidates if codecs.lookup(each) == codecs.lookup(best.encoding)), best.encoding)


def _candidates(languages: Iterable[str]) -> Sequence[str]:
    """Encodings of all these languages; without windows-1252 if another one has most of its letters too."""
    each: dict[str, None] = {}
    for language in languages:
        primary = language_code(language) or language
        charset = locale.normalize(primary).rpartition(".")[2]
        each |= dict.fromkeys(_CANDIDATES.get(_UNICODE_LOCALES.get(primary, charset), ()))
    if not each.keys().isdisjoint(_LATIN):
        each.pop("windows-1252", None)
    return [*each]


def _can_decode(sample: bytes, encoding: str) -> bool:
    try:
        sample.decode(encoding)
    except UnicodeDecodeError as error:
        return error.end >= _SAMPLE  # cut inside a character
    return True


def _recorded(chunks: Iterable[bytes], record: list[bytes]) -> Iterator[bytes]:
    """The chunks, each of which is added to a record before it is used."""
    for chunk in chunks:
        record.append(chunk)
        yield chunk


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
                "its encoding (--encoding, or encoding in a recipe)"
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
            raise self._error(error, line, stretch) from error

    def pairs(self) -> Iterator[tuple[int, str, str]]:
        """(line, source, target) of each pair; errors as `read`."""
        line, stretch = 1, ""
        try:
            for stretch in self.form.pair_stretches(self._chunks()):
                yield from self.form.pairs(stretch, line)
                line += stretch.count("\n")
        except StretchError as error:
            raise self._error(error, line, stretch) from error

    def _error(self, error: StretchError, line: int, stretch: str) -> DataError:
        line += stretch.count("\n", 0, error.offset)
        return DataError(f"{self.name}:{line}: {error}")

    def _chunks(self) -> Iterator[str]:
        """The text, checked if it is XML."""
        check = XmlCheck() if self.form.is_xml else None
        read: list[bytes] = []  # which the check takes as they are if it would get the same bytes from the text
        is_utf8 = codecs.lookup(self.form.encoding).name == "utf-8"
        try:
            chunks = itertools.chain([self._head], iter(partial(self._file.read, CHUNK), b""))
            for text in decode_chunks(_recorded(chunks, read), self.form.encoding, self.name):
                if check is not None:
                    check.feed(b"".join(read) if is_utf8 else text, is_last=not text)
                read.clear()
                root = None if check is None else check.root
                if root is not None and self._root not in (None, root):
                    raise XmlError(1, f"the outermost element is {root}, not {self._root}; is the name right?")
                yield text
        except XmlError as error:
            raise DataError(f"{self.name}:{error.line}: {error}") from error
