r"""Text files read line by line: UTF-8, `\n` only, plain or compressed.

A line ends at `\n` and nowhere else (`str.splitlines` splits on ten characters and is never used). A `\r` before the
`\n` is dropped, and so is a byte order mark at the beginning of a line: of the file, or of one that was joined to it.
Compression is detected from the first bytes of the content, not from the name; archives and other files that are no
text are named. The encoding is not guessed: a byte that is not UTF-8 is an error with its location.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import os
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from mtkit.display import count_of
from mtkit.errors import DataError, MissingExtraError
from mtkit.io.files import require_regular_file, translate_read_errors

COMPRESSION_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")  # of file names; what is read depends on the content alone
_CHUNK = 1 << 20  # bytes read at a time
MAX_LINE_BYTES = 1 << 26  # longer ones are no text, and a device may never end its first line
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_XZ, _LZMA = b"\xfd7zXZ\x00", b"]\x00\x00"
_ZSTANDARD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # a frame, or one to skip: pzstd begins with it
_MAGIC_BYTES = 10  # that tell which
_BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")  # with the magic number of its first block, or of its end

_NO_TEXT = {  # how files begin whose bytes may be UTF-8, or would be said to be another encoding
    b"PK\x03\x04": "a zip archive or office document",
    b"PK\x05\x06": "a zip archive without files",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a rar archive",
    b"\x04\x22\x4d\x18": "compressed by lz4",
    b"\x1f\x9d": "compressed by compress (.Z)",
    b"%PDF-": "a PDF document",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"SQLite format 3": "a database",
}
_TAR, _TAR_OFFSET = b"ustar", 257


@dataclass(frozen=True)
class TextSubset:
    """A number of lines of a text file, evenly spaced and the same in every call; of a shorter file, all lines.

    Line i of T is in a subset of N if there is a multiple of T / N in (i, i + 1], so that a limit of 2N contains the
    lines of the limit N.
    """

    path: Path
    limit: int

    def __str__(self) -> str:
        return str(self.path)


Text = Path | TextSubset


def without_compression(path: Path) -> Path:
    """The path without the suffixes of compression at its end."""
    while path.suffix.lower() in COMPRESSION_SUFFIXES:
        path = path.with_suffix("")
    return path


def numbered_lines(text: Text) -> Iterator[tuple[int, str]]:
    """The lines that `read_lines` yields, each after its number in the file, from 1. Errors as there."""
    lines = enumerate(read_lines(path_of(text)), start=1)
    if isinstance(text, Path):
        return lines
    limit, total = text.limit, count_lines(text.path)
    if total <= limit:
        return lines
    return ((number, line) for number, line in lines if number * limit // total > (number - 1) * limit // total)


def read_lines(text: Text) -> Iterator[str]:
    """The lines of a text file or pipe without their line ends; memory does not grow with the file.

    Raises:
        DataError: a byte that is not UTF-8 or a line of more than MAX_LINE_BYTES (after all lines before it were
            yielded), or a damaged compressed file.
        MissingInputError, ReadWriteError: as `files.translate_read_errors`.
        MissingExtraError: the file is compressed with zstandard and no package for zstandard is installed.
    """
    if isinstance(text, TextSubset):
        yield from (line for _, line in numbered_lines(text))
        return
    with open_content(text) as stream:
        yield from _decode(stream, str(text))


def require_list(name: str, values: object) -> None:
    """Check that an argument of a public function is no text, which is a list too: of its characters.

    Raises:
        TypeError: it is a text, or nothing that has items in an order.
    """
    if isinstance(values, str | bytes | bytearray | Mapping | Set) or not isinstance(values, Iterable):
        remedy = "; put one text into a list: [text]" if isinstance(values, str | bytes | bytearray) else ""
        raise TypeError(f"{name}: a list is expected, not {type(values).__name__}{remedy}")


def list_of_texts(name: str, values: object) -> list[str]:
    """An argument of a public function as a list of texts. Arguments and errors as `require_list`."""
    require_list(name, values)
    texts = list(cast(Iterable[str], values))
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{index}]: a str is expected, not {type(text).__name__}")
    return texts


def require_path(name: str, value: object) -> None:
    """Check that an argument of a public function is a path; TypeError otherwise."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name}: a path is expected, not {type(value).__name__}")


def count_lines(text: Text) -> int:
    """The number of lines that `read_lines` yields; the encoding is not checked.

    Raises:
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `read_lines`.
        MissingInputError: the file is a pipe, which can be read only once.
    """
    return count_lines_and_bytes(text)[0]


def count_lines_and_bytes(text: Text) -> tuple[int, int]:
    """The number of lines that `read_lines` yields, and the size of the text without compression.

    The size of a subset is estimated from that of its file.

    Raises:
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `count_lines`.
    """
    if isinstance(text, TextSubset):
        total, size = count_lines_and_bytes(text.path)
        lines = min(total, text.limit)
        return lines, size * lines // max(1, total)
    require_regular_file(text)
    lines = size = 0
    last = b""
    with open_content(text) as stream:
        while chunk := stream.read(_CHUNK):
            last = chunk if size else chunk.removeprefix(_BOM)  # a file with a byte order mark only is empty
            lines, size = lines + chunk.count(b"\n"), size + len(chunk)
    return lines + (last != b"" and not last.endswith(b"\n")), size


def decode_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    """The lines of a byte stream such as standard input, each as soon as its line end has been read.

    Args:
        stream: has `read1`, which returns the available bytes and blocks only if there are none; compressed bytes are
            detected if it has `peek`, as standard input has.

    Raises:
        DataError, MissingExtraError: as `read_lines`.
    """
    magic = stream.peek(_MAGIC_BYTES) if hasattr(stream, "peek") else b""
    with _decompressed(cast(IO[bytes], stream), magic[:_MAGIC_BYTES], name) as content:
        yield from _decode(content, name)


def line_blocks(path: Path) -> Iterator[bytes]:
    """The undecoded content of a text file in blocks of whole lines; the last one may lack its line end.

    Raises:
        DataError, MissingInputError, ReadWriteError, MissingExtraError: as `read_lines`, except that bytes may be
            anything.
    """
    with open_content(path) as stream:
        yield from _blocks(stream, str(path))


def _blocks(stream: BinaryIO, name: str) -> Iterator[bytes]:
    done = 0  # lines yielded
    rest = bytearray()  # the beginning of a line whose end has not been read yet
    is_first = True
    while chunk := stream.read1(_CHUNK):  # type: ignore[attr-defined]
        if is_first:
            _require_text(chunk, name)
            is_first = False
        head, line_end, tail = chunk.rpartition(b"\n")
        if not line_end:
            rest += chunk
            if len(rest) > MAX_LINE_BYTES:
                raise DataError(f"{name}:{done + 1}: a line of more than {MAX_LINE_BYTES >> 20} MiB; is this a text?")
            continue
        done += head.count(b"\n") + 1
        yield bytes(rest) + head + line_end
        rest = bytearray(tail)
    if rest:
        yield bytes(rest)


def _decode(stream: BinaryIO, name: str) -> Iterator[str]:
    """The lines of decompressed bytes; see `decode_lines`."""
    done = 0  # lines yielded
    for block in _blocks(stream, name):
        content = block.removeprefix(_BOM) if not done else block
        if content:  # a file with a byte order mark only is empty
            done += yield from _decode_block(content.removesuffix(b"\n"), name, done)


def _decode_block(block: bytes, name: str, done: int) -> Generator[str, None, int]:
    """The lines of a block that ends at a line end; the generator returns their number."""
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        good, line_end, bad = block[: error.start].rpartition(b"\n")
        line = done + 1
        if line_end:
            line += yield from _decode_block(good, name, done)
        remedy = "convert the file, for example with iconv -f latin1 -t utf-8"
        if line == 1 and not bad and block[error.start] in (0xFE, 0xFF):
            remedy = "the file may be UTF-16: iconv -f utf-16 -t utf-8"
        place = f"byte {len(bad) + 1} of the line (0x{block[error.start]:02x})"
        raise DataError(f"{name}:{line}: {place} is not UTF-8; {remedy}") from error
    lines = text.split("\n")
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    if "\ufeff" in text:
        lines = [line.removeprefix("\ufeff") for line in lines]
    yield from lines
    return len(lines)


@contextmanager
def open_content(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file without compression; errors as `read_lines`."""
    with (
        translate_read_errors(path, allow_stream=True),
        path.open("rb") as file,
        _decompressed(file, file.peek(_MAGIC_BYTES)[:_MAGIC_BYTES], str(path)) as stream,
    ):
        yield stream


def _require_text(start: bytes, name: str) -> None:
    """Refuse a file by its first bytes, before and after decompression."""
    kinds = [kind for magic, kind in _NO_TEXT.items() if start.startswith(magic)]
    if start[_TAR_OFFSET : _TAR_OFFSET + len(_TAR)] == _TAR:
        kinds.append("a tar archive")
    if kinds:
        raise DataError(f"{name}: {kinds[0]}, not a text; unpack it, or save it as text, and give that file")


@contextmanager
def _decompressed(file: IO[bytes], magic: bytes, name: str) -> Iterator[BinaryIO]:
    """The decompressed stream; an error of reading it is a DataError if the compressed file is damaged."""
    _require_text(magic, name)
    stream: Any = file
    damage: tuple[type[Exception], ...] = ()
    if magic.startswith(_GZIP):
        stream, damage = gzip.GzipFile(fileobj=file, mode="rb"), (EOFError, gzip.BadGzipFile, zlib.error)
    elif _BZIP2.match(magic):
        stream, damage = bz2.BZ2File(file), (EOFError, OSError)
    elif magic.startswith((_XZ, _LZMA)):
        stream, damage = lzma.LZMAFile(file), (EOFError, lzma.LZMAError)  # noqa: SIM115 (the caller closes the file)
    elif _ZSTANDARD.match(magic):
        for package in ("compression.zstd", "backports.zstd"):  # Python's library has it from 3.14 on
            try:
                zstd: Any = importlib.import_module(package)
            except ImportError:
                continue
            stream, damage = zstd.ZstdFile(file), (EOFError, zstd.ZstdError)
            break
        else:
            raise MissingExtraError("zst", "backports.zstd")
    try:
        yield stream
    except damage as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk, not of the content
            raise
        raise DataError(f"{name}: the compressed file is damaged or incomplete: {error}") from error


def check_line_counts(src: Text, tgt: Text) -> int:
    """Check that two files have the same number of lines and are not empty; return that number.

    Raises:
        DataError: the numbers differ or are 0.
        MissingInputError, ReadWriteError: a file cannot be read.
    """
    src, tgt = path_of(src), path_of(tgt)
    counts = {src: count_lines(src), tgt: count_lines(tgt)}
    if counts[src] != counts[tgt]:
        short, long = sorted((src, tgt), key=lambda path: counts[path])
        raise DataError(
            f"{long}:{counts[short] + 1}: line has no partner: {short} has {count_of(counts[short], 'line')} and this "
            f"file {counts[long]}; both files must have the same number of lines"
        )
    if not counts[src]:
        if src == tgt:
            raise DataError(f"{src}: the file is empty; a corpus needs at least one sentence")
        raise DataError(f"{src} and {tgt}: both are empty; a corpus needs at least one sentence pair")
    return counts[src]


def path_of(text: Text) -> Path:
    """The file of a text."""
    return text if isinstance(text, Path) else text.path
