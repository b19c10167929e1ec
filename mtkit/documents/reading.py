"""Reading of documents: decoding in chunks, and stretches of elements, entries and records."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator

from mtkit.documents.unit import StretchError
from mtkit.errors import DataError

_CONVERT = "convert the file, for example with iconv, or name its encoding by --encoding"
MAX_STRETCH = 1 << 26  # characters; longer ones are refused, so that memory is bounded


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
        raise DataError(f"{name}:{line}: a byte that is not {encoding}; {_CONVERT}") from error
    except UnicodeError as error:  # UTF-16 without a byte order mark, as its declaration says
        raise DataError(f"{name}:{line}: is not {encoding} ({error}); {_CONVERT}") from error
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
