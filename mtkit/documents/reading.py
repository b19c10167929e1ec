"""Reading of documents: decoding in chunks, and stretches of elements, entries and records."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator

from mtkit.documents.markup import html_attributes, html_tags
from mtkit.documents.unit import StretchError
from mtkit.errors import DataError

CHUNK = 1 << 20  # bytes read at a time
MAX_STRETCH = 1 << 26  # characters; longer ones are refused, so that memory is bounded
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARED = (
    re.compile(rb"""\A\s*<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)["']"""),
    re.compile(rb"Content-Type:(?:(?!Content-Type:)[^\n])*?charset=([\w.:-]+)", re.IGNORECASE),
)
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s;"']+)""", re.IGNORECASE)
_HTML_NAMES = (".html", ".htm", ".xhtml")
_HTML_HEAD = 1 << 16  # bytes in which the declaration of a page is looked for
# encodings as browsers read them (https://encoding.spec.whatwg.org/#names-and-labels): supersets of the older ones
_HTML_ENCODINGS = {
    **dict.fromkeys(("ascii", "iso8859-1"), "windows-1252"),
    "iso8859-9": "windows-1254",
    **dict.fromkeys(("iso8859-11", "tis-620", "windows-874"), "cp874"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **dict.fromkeys(("shift_jis", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc_kr", "windows-949"), "cp949"),
    "big5": "big5hkscs",
    "iso-8859-8-i": "iso-8859-8",
    **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"), "utf-8"),  # a declaration in UTF-16 has NULs
}
_ASCII = "".join(map(chr, range(32, 127))) + r"\u0041"


def encoding_of(head: bytes, name: str, *, is_xml: bool, is_po: bool) -> str:
    """The encoding of a document by its first bytes: a byte order mark, or a declaration; otherwise UTF-8.

    Raises:
        DataError: an encoding is declared that Python does not know.
    """
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    if name.lower().endswith(_HTML_NAMES):
        return _html_encoding(head, name)
    declared = _DECLARED[0].search(head) if is_xml else _DECLARED[1].search(head) if is_po else None
    encoding = "utf-8" if declared is None else declared[1].decode("ascii")
    if encoding == "CHARSET":  # of a PO template
        return "utf-8"
    try:
        codecs.lookup(encoding)
        "".encode(encoding)
    except LookupError as error:
        raise _unknown(encoding, name) from error
    return encoding


def _unknown(encoding: str, name: str) -> DataError:
    return DataError(f"{name}: the encoding {encoding[:40]} is unknown; convert the file to UTF-8")


def _html_encoding(head: bytes, name: str) -> str:
    """The encoding of an HTML page without a byte order mark.

    A page that declares another encoding may be UTF-8: it was converted, or its server declares UTF-8 in the header,
    which takes precedence. Text of another encoding is hardly ever valid UTF-8 by chance. The translation is then UTF-8
    too, so that it can replace the page.
    """
    xml = _DECLARED[0].search(head)
    label = _meta_charset(head[:_HTML_HEAD]) if xml is None else xml[1].decode("ascii")
    if label is None:
        return "utf-8"
    encoding = label.lower().removeprefix("x-")
    try:
        encoding = _HTML_ENCODINGS.get(encoding, encoding)
        encoding = _HTML_ENCODINGS.get(codecs.lookup(encoding).name, encoding)
        ascii_text = _ASCII.encode(encoding, "xmlcharrefreplace")
        is_known = ascii_text == _ASCII.encode() and ascii_text.decode(encoding) == _ASCII  # others, such as utf-7, not
    except (LookupError, UnicodeError):
        is_known = False
    if not is_known:
        raise _unknown(label, name)
    return "utf-8" if _is_utf8(head) else encoding


def _meta_charset(head: bytes) -> str | None:
    """The encoding that a `meta` element of a page declares; None also for the placeholder of a template."""
    text = head.decode("latin-1")
    for tag in html_tags(text, 0, len(text)):
        name = (tag["name"] or "").lower()
        if name == "body":
            break
        if name != "meta":
            continue
        attributes = html_attributes(tag)
        charset = attributes.get("charset")
        if charset is None and attributes.get("http-equiv", "").lower() == "content-type":
            found = _CHARSET.search(attributes.get("content", ""))
            charset = None if found is None else found[1]
        if charset is not None:
            charset = charset.strip()
            return charset if re.fullmatch(r"[\w.:-]+", charset, re.ASCII) else None
    return None


def _is_utf8(head: bytes) -> bool:
    """Return whether the first bytes have characters beyond ASCII, all in UTF-8."""
    try:
        # the last character of all that is read at once may be incomplete
        codecs.getincrementaldecoder("utf-8")().decode(head, len(head) < CHUNK)
    except UnicodeDecodeError:
        return False
    return not head.isascii()


def decode_chunks(chunks: Iterable[bytes], encoding: str, name: str) -> Iterator[str]:
    """The text of chunks of bytes, line ends and byte order mark included; the last one, and no other, is empty.

    Raises:
        DataError: a byte is not of this encoding, or the text has a NUL.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    for chunk in filter(None, chunks):
        if text := _decode(decoder, chunk, name, line, encoding):
            line += text.count("\n")
            yield text
    if rest := _decode(decoder, b"", name, line, encoding, is_last=True):
        yield rest
    yield ""


def _decode(
    decoder: codecs.IncrementalDecoder, chunk: bytes, name: str, line: int, encoding: str, *, is_last: bool = False
) -> str:
    try:
        text = decoder.decode(chunk, is_last)
    except UnicodeDecodeError as error:
        line += error.object[: error.start].count(b"\n")
        raise DataError(
            f"{name}:{line}: a byte that is not {encoding}; convert the file, for example with iconv"
        ) from error
    except UnicodeError as error:  # UTF-16 without a byte order mark, as its declaration says
        raise DataError(
            f"{name}:{line}: is not {encoding} ({error}); convert the file, for example with iconv"
        ) from error
    if "\0" in text:
        line += text[: text.index("\0")].count("\n")
        raise DataError(f"{name}:{line}: a NUL character; is this a text?")
    return text


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
        check_length(rest)
    position = 0
    for end in ends(rest):
        yield rest[position:end]
        position = end
    yield rest[position:]


def check_length(stretch: str) -> None:
    """Refuse a stretch of more than MAX_STRETCH characters."""
    if len(stretch) > MAX_STRETCH:
        raise StretchError(0, f"more than {MAX_STRETCH >> 20} Mi characters without an end; split the document")


def element_stretches(chunks: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    """Stretches that end with the end tags of XML elements, which are not nested; errors as `split_stretches`."""
    tag = re.compile(
        rf"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|</(?:[\w.-]+:)?(?:{'|'.join(names)})\s*>", re.DOTALL
    )
    return split_stretches(chunks, lambda text: (m.end() for m in tag.finditer(text) if m[0][1] == "/"))


class WholeText:
    """Base class of formats without stretches: the whole text is one."""

    is_xml = has_references = False

    def stretches(self, chunks: Iterable[str]) -> Iterator[str]:
        """The whole text."""
        return split_stretches(chunks, lambda text: ())
