"""Alphabets of sentencepiece models: the characters that represent a text inside a model.

Models of other programs represent a text by itself. Models that mtkit trains represent the few characters that
sentencepiece cannot learn by private-use ones. Byte-level models represent each byte of the text in UTF-8 by one
character: 256 tokens then cover every text, and none is unknown (Wang et al. 2020, https://arxiv.org/abs/1909.03341).
"""

from __future__ import annotations

import re

from mtkit.text.normalise import SPACE_MARK

BYTE_LEVEL = "<byte_level>"  # control token of byte-level models, by which they are recognised

# sentencepiece's trainer rejects NUL and tab and skips every line with U+2585. These characters are exchanged with
# private-use characters before sentencepiece reads the text. The exchange is its own inverse, so nothing is lost.
_PRIVATE_USE = {"\0": "\U0010fff0", "\t": "\U0010fff1", "\u2585": "\U0010fff2"}
_ESCAPES = str.maketrans(_PRIVATE_USE | {private: char for char, private in _PRIVATE_USE.items()})
_ESCAPED = re.compile("[" + "".join(map(chr, _ESCAPES)) + "]")

# All bytes but printable ASCII and the space become Latin letters: sentencepiece begins a token where the script
# changes, and would otherwise split the bytes of one character.
_BYTE_TO_CHARACTER = {byte: chr(0x180 + byte) for byte in range(0x20)} | {0x7F: chr(0x1A0)}
_BYTE_TO_CHARACTER |= {byte: chr(byte + 0x80) for byte in range(0x80, 0x100)}
_CHARACTER_TO_BYTE = {ord(character): byte for byte, character in _BYTE_TO_CHARACTER.items()}
_PRINTABLE = re.compile("[ -~]*")


class Alphabet:
    """The alphabet of models of other programs: a text represents itself."""

    def escape(self, text: str) -> str:
        """A text as the model represents it."""
        return text

    def unescape(self, text: str) -> str:
        """The text that the output of the model represents."""
        return text

    def escape_token(self, text: str) -> str:
        """The name in the model of a token that has this name for users."""
        return text

    def unescape_token(self, text: str) -> str:
        """The name for users of a token that has this name in the model."""
        return text

    def piece_bytes(self, piece: str) -> bytes:
        """The bytes of a token's text, with U+2581 for a space."""
        return piece.encode()

    def text_bytes(self, text: str) -> bytes:
        """The bytes of a text, with U+2581 for a space, comparable with `piece_bytes`."""
        return self.piece_bytes(self.escape(text).replace(" ", SPACE_MARK))


class PrivateUse(Alphabet):
    """The alphabet of models that mtkit trains on characters: those that sentencepiece cannot learn are exchanged."""

    @staticmethod
    def _exchange(text: str) -> str:
        return text.translate(_ESCAPES) if _ESCAPED.search(text) else text

    escape = unescape = escape_token = unescape_token = _exchange


class ByteLevel(Alphabet):
    """The alphabet of byte-level models.

    Users see the names that tokens have in the model, since a token may be half a character: the bytes 0x80 to 0xFF are
    U+0100 to U+017F, control characters U+0180 to U+01A0.
    """

    def escape(self, text: str) -> str:
        """One character for each byte of the text in UTF-8."""
        if _PRINTABLE.fullmatch(text):
            return text
        return text.encode().decode("latin-1").translate(_BYTE_TO_CHARACTER)

    def unescape(self, text: str) -> str:
        """The text of bytes; U+FFFD for bytes that form no character."""
        return text if _PRINTABLE.fullmatch(text) else self.piece_bytes(text).decode(errors="replace")

    def piece_bytes(self, piece: str) -> bytes:
        """The bytes that the characters stand for; other characters, such as U+2581, in UTF-8."""
        return b"".join(
            bytes([_CHARACTER_TO_BYTE[ord(character)]]) if ord(character) in _CHARACTER_TO_BYTE else character.encode()
            for character in piece
        )

    @staticmethod
    def characters() -> str:
        """The characters of all bytes except the space, which every sentencepiece model has."""
        return "".join(_BYTE_TO_CHARACTER.get(byte, chr(byte)) for byte in range(256) if byte != ord(" "))
