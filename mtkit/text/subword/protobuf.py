"""Wire format of protocol buffers, as far as editing a sentencepiece model file needs it.

A message is a sequence of fields, each with a number and a value. Two messages that follow each other are one message:
repeated fields are appended, and a later single value replaces an earlier one. A model file is therefore extended by
appending to it. The field numbers are those of sentencepiece_model.proto.
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from enum import IntEnum

PIECE, TRAINER_SPEC, NORMALIZER_SPEC = 1, 2, 3  # fields of ModelProto
MODEL_TYPE, UNK_SURFACE = 3, 44  # fields of TrainerSpec
BOS_PIECE, EOS_PIECE, PAD_PIECE = 46, 47, 48
_PIECE_TEXT, _PIECE_SCORE, _PIECE_TYPE = 1, 2, 3  # fields of SentencePiece
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types


class PieceType(IntEnum):
    """Types of sentencepiece's pieces."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def bytes_field(number: int, value: bytes) -> bytes:
    """A field with a string or another message."""
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def number_field(number: int, value: int) -> bytes:
    """A field with an integer from 0 on, or a truth value."""
    return _varint(number << 3 | _VARINT) + _varint(value)


def piece_field(text: str, score: float = 0.0, kind: PieceType = PieceType.NORMAL) -> bytes:
    """A piece of a sentencepiece model, as a field of ModelProto."""
    score_field = _varint(_PIECE_SCORE << 3 | _FIXED32) + struct.pack("<f", score)
    type_field = number_field(_PIECE_TYPE, kind)
    return bytes_field(PIECE, bytes_field(_PIECE_TEXT, text.encode()) + score_field + type_field)


def pieces_of(model: bytes, kind: PieceType) -> list[str]:
    """The pieces of a type, by id; ValueError if the bytes are no model."""
    texts = []
    for number, value, _ in read_fields(model):
        if number == PIECE and isinstance(value, bytes):
            fields = {key: part for key, part, _ in read_fields(value)}
            if fields.get(_PIECE_TYPE, PieceType.NORMAL) == kind:
                texts.append(bytes(fields[_PIECE_TEXT]).decode())
    return texts


def with_unused_pieces(model: bytes, unused: Collection[str]) -> bytes:
    """A model in which some of the ordinary pieces have the type of unused ones."""
    fields = []
    for number, value, encoded in read_fields(model):
        if number == PIECE and isinstance(value, bytes):
            parts = {key: part for key, part, _ in read_fields(value)}
            is_ordinary = parts.get(_PIECE_TYPE, PieceType.NORMAL) in (PieceType.NORMAL, PieceType.USER_DEFINED)
            if is_ordinary and bytes(parts[_PIECE_TEXT]).decode() in unused:
                value += number_field(_PIECE_TYPE, PieceType.UNUSED)  # the later of two types counts
                encoded = bytes_field(PIECE, value)
        fields.append(encoded)
    return b"".join(fields)


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes, bytes]]:
    """Number, value and encoding of each field of a message.

    Raises:
        ValueError: the bytes are not a message.
    """
    position = 0
    while position < len(message):
        start = position
        key, position = _read_varint(message, position)
        wire_type = key & 7
        value: int | bytes
        if wire_type == _VARINT:
            value, position = _read_varint(message, position)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(wire_type, -1)
            if wire_type == _BYTES:
                size, position = _read_varint(message, position)
            if size < 0 or position + size > len(message):
                raise ValueError(f"no field at byte {start}")
            value, position = message[position : position + size], position + size
        yield key >> 3, value, message[start:position]


def first_field(message: bytes) -> tuple[bytes, bytes]:
    """The value of a message's first field, which is a string, and all other fields.

    Raises:
        ValueError: the bytes are not a message that begins with a string.
    """
    _, value, encoded = next(read_fields(message), (0, 0, b""))
    if not isinstance(value, bytes):
        raise ValueError("no string at byte 0")
    return value, message[len(encoded) :]


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes((*encoded, value))


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    """The integer at a position, and the position after it."""
    value = shift = 0
    while position < len(message) and shift < 64:
        byte = message[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position
    raise ValueError(f"no integer at byte {position}")
