"""Model folders that were changed with right hashes: tensors, sentencepiece models, lexicons, config.json."""

from __future__ import annotations

import hashlib
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mtkit.io.records import read_record, write_record

CONTROL, BYTE = 3, 6  # types of pieces


@dataclass(frozen=True)
class Piece:
    """A token of a sentencepiece model file; type None is a normal one."""

    text: bytes
    score: float = 0.0
    type: int | None = None

    def encode(self) -> bytes:
        """The protocol buffer message."""
        message = b"\x0a" + _varint(len(self.text)) + self.text + b"\x15" + struct.pack("<f", self.score)
        return message + (b"" if self.type is None else b"\x18" + _varint(self.type))


def _varint(number: int) -> bytes:
    head, rest = number & 0x7F, number >> 7
    return bytes([head | 0x80]) + _varint(rest) if rest else bytes([head])


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = content[at]
        number, shift, at = number | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return number, at


def _fields(content: bytes) -> list[tuple[int, bytes, bytes]]:
    """(number, value, whole field) of the fields of a message."""
    at, fields = 0, []
    while at < len(content):
        start = at
        key, at = _read_varint(content, at)
        if key & 7 == 2:
            size, at = _read_varint(content, at)
        else:
            size = _read_varint(content, at)[1] - at if key & 7 == 0 else {1: 8, 5: 4}[key & 7]
        fields.append((key >> 3, content[at : at + size], content[start : at + size]))
        at += size
    return fields


def read_pieces(model: bytes) -> list[Piece]:
    """The pieces of a sentencepiece model."""
    pieces = []
    for number, value, _ in _fields(model):
        if number == 1:
            fields = {inner: content for inner, content, _ in _fields(value)}
            kind = _read_varint(fields[3], 0)[0] if 3 in fields else None
            pieces.append(Piece(fields[1], struct.unpack("<f", fields.get(2, bytes(4)))[0], kind))
    return pieces


def with_pieces(model: bytes, change: Callable[[int, Piece], Piece]) -> bytes:
    """A sentencepiece model with changed pieces."""
    pieces = [change(number, piece).encode() for number, piece in enumerate(read_pieces(model))]
    rest = b"".join(whole for number, _, whole in _fields(model) if number != 1)
    return b"".join(b"\x0a" + _varint(len(piece)) + piece for piece in pieces) + rest


def rename(old: int, text: bytes) -> Callable[[int, Piece], Piece]:
    """A change of one piece's text."""
    return lambda number, piece: replace(piece, text=text) if number == old else piece


def copy_model(model: Path, folder: Path, edit: Callable[[Path], None]) -> Path:
    """A copy of a model folder after `edit`, with the hashes of its files."""
    shutil.copytree(model, folder)
    edit(folder)
    config = read_record(folder / "config.json", remedy="")
    if isinstance(config.get("files"), dict):
        files = {name: _hash(folder / name) for name in config["files"]}
        write_record(folder / "config.json", {**config, "files": files})
    return folder


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def set_config(folder: Path, path: tuple[str, ...], value: Any) -> None:
    """Change a value of config.json."""
    config = inner = read_record(folder / "config.json", remedy="")
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    write_record(folder / "config.json", config)
