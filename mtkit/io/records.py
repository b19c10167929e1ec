"""Records: small files that end with a checksum of everything before it, so that no changed bit is read as content.

Three forms have the same check, of bytes and not of values, so that a changed space is noticed too: a JSON object whose
last key is `sha256`, a text whose last line is a comment with the checksum, and a line of a log whose last key is
`crc32`. A record that was edited by hand does not match its checksum either.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mtkit.errors import DamagedError, MissingInputError
from mtkit.io.files import read_file, write_bytes
from mtkit.io.json_text import encode_json, parse_json, reject_constant

Json = dict[str, Any]

DAMAGED = "damaged, or edited by hand: it does not match its checksum"


def write_record(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object with its checksum, atomically and durably.

    Raises:
        ReadWriteError: the file cannot be written.
        ValueError: a value is not finite, or `content` has the key of the checksum.
    """
    if "sha256" in content:
        raise ValueError("sha256 is the key of the record's own checksum")
    text = json.dumps({**content, "sha256": "0" * 64}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    head = encode_json(text)[: -len(_json_end(b""))]
    write_bytes(path, head + _json_end(head))


def read_record(path: Path, *, remedy: str) -> Json:
    """Read the content of a file written by `write_record`.

    Raises:
        MissingInputError, ReadWriteError: as `translate_read_errors`.
        DamagedError: the file does not match its checksum.
    """
    content = _read_json(_checked(path, _json_end, remedy))
    if content is None:  # only a file that another program wrote with a matching checksum
        raise DamagedError(f"{path}: {DAMAGED}", remedy)
    del content["sha256"]
    return content


def is_record(path: Path) -> bool:
    """Return whether this is a file written by `write_record`, unchanged.

    Raises:
        ReadWriteError: as `translate_read_errors`.
    """
    try:
        read_record(path, remedy="")
    except (DamagedError, MissingInputError):
        return False
    return True


def older_format(path: Path) -> tuple[int, str] | None:
    """The keys `format` and `mtkit` of a JSON file from before records had checksums; None for any other file.

    Raises:
        MissingInputError, ReadWriteError: as `translate_read_errors`.
    """
    content = _read_json(read_file(path))
    if content is None or isinstance(content.get("sha256"), str):
        return None
    version, writer = content.get("format"), content.get("mtkit")
    return (version, writer) if type(version) is int and isinstance(writer, str) else None


def write_text_record(path: Path, text: str) -> None:
    """Write a text that ends with a newline, in a language with # comments, and the comment with its checksum.

    Raises:
        ReadWriteError: the file cannot be written.
    """
    head = text.encode()
    write_bytes(path, head + _comment(head))


def read_text_record(path: Path, *, remedy: str) -> str:
    """Read a file written by `write_text_record`; arguments and errors as `read_record`."""
    return _checked(path, _comment, remedy).decode()


def is_text_record(path: Path) -> bool:
    """Return whether this is a file written by `write_text_record`, unchanged.

    Raises:
        ReadWriteError: as `translate_read_errors`.
    """
    try:
        read_text_record(path, remedy="")
    except DamagedError:
        return False
    return True


def record_line(content: Mapping[str, Any]) -> bytes:
    """A JSON object with its checksum, as one line."""
    text = json.dumps({**content, "crc32": "0" * 8}, ensure_ascii=False, allow_nan=False)
    head = encode_json(text)[: -len(_line_end(b""))]
    return head + _line_end(head) + b"\n"


def parse_record_line(line: bytes) -> Json | None:
    """The content of a line of `record_line`, without its newline; None if it is incomplete or damaged."""
    size = len(_line_end(b""))
    content = _read_json(line) if line[-size:] == _line_end(line[:-size]) else None
    if content is not None:
        del content["crc32"]
    return content


def _json_end(head: bytes) -> bytes:
    return b'"sha256": "%s"\n}\n' % hashlib.sha256(head).hexdigest().encode()


def _comment(head: bytes) -> bytes:
    return b"# sha256 of the lines above: %s\n" % hashlib.sha256(head).hexdigest().encode()


def _line_end(head: bytes) -> bytes:
    return b'"crc32": "%08x"}' % zlib.crc32(head)


def _checked(path: Path, end: Callable[[bytes], bytes], remedy: str) -> bytes:
    """The bytes of a record (of a text without its comment) after comparing them with its end."""
    content = read_file(path)
    size = len(end(b""))
    if content[-size:] != end(content[:-size]):
        raise DamagedError(f"{path}: {DAMAGED}", remedy)
    return content[:-size] if end is _comment else content


def _read_json(content: bytes) -> Json | None:
    try:
        value = parse_json(content, reject_constant)
    except ValueError:  # not JSON, not UTF-8, NaN, a number of thousands of digits
        return None
    return value if isinstance(value, dict) else None


def find_log(run: Path) -> Path:
    """The log of a run folder.

    Raises:
        MissingInputError: there is none.
    """
    path = run / "log.jsonl"
    if not path.is_file():
        raise MissingInputError(f"{path}: no such file; {run} is not a run folder, or nothing has been run there yet")
    return path
