"""Text to token ids and back by one subword model.

A subword model is a sentencepiece model (Kudo and Richardson 2018, https://arxiv.org/abs/1808.06226), also with the
ids of another vocabulary (subword/mapped_vocabulary.py), a file of BPE merges or a vocabulary of WordPiece
(subword/listed_vocabulary.py). `decode(encode(x)) == x` for each line x whose characters are in the vocabulary, with
byte fallback or a byte-level model for each line, unless x is normalised: by `normalisation`, by a sentencepiece model
of another program with rules of its own, and always U+2581 (see normalise.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import sentencepiece

from mtkit.errors import DataError
from mtkit.io.files import read_file, write_bytes
from mtkit.text.normalise import AS_IT_IS, SPACE_MARK, TextForm
from mtkit.text.subword.listed_vocabulary import BpeCodes, ListedVocabulary, unused_names
from mtkit.text.subword.mapped_vocabulary import (
    MappedVocabulary,
    TokenList,
    open_vocabulary,
    with_kept_tokens,
    with_vocabulary,
)
from mtkit.text.subword.sampling import SubwordSampler
from mtkit.text.vocab import RESERVED_TOKENS, SPECIAL_TOKENS, UNKNOWN_SURFACE, Vocab

Side = Literal["src", "tgt"]

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


class Tokenizer:
    """One subword model: a sentencepiece model, BPE codes or a vocabulary of WordPiece.

    Attributes:
        is_codes: whether it is a file of BPE merges.
        is_byte_level: whether its characters stand for bytes.
        form: of a line before segmentation.
        is_byte: by id, whether a token is a byte.
        languages: by code, the ids of tokens that begin texts of a language in a model of another program.
        before, after: ids of tokens before every text, and between it and the end of sentence, in a model of another
            program of one direction.
        hidden: ids of further tokens that no text produces, and that texts of translations leave out.
        tag_ids: by name, the ids of tags that have tokens of their own in a model of another program.
        inner_model: the content of its sentencepiece model; None if it has none.
        sentencepiece_model: the same, for other programs; None also if characters stand for bytes in it.
    """

    def __init__(self, model: bytes, *, form: TextForm = AS_IT_IS) -> None:
        """Parse the bytes of a model file; RuntimeError if they are not one."""
        self.model = model
        listed = open_vocabulary(model)
        self.is_codes = isinstance(listed, BpeCodes)
        p: Any = listed or sentencepiece.SentencePieceProcessor(model_proto=model)
        self._processor = p
        self._is_listed = listed is not None
        # models of other programs lack the special tokens, or have them after the others
        inner, first = listed.processor if isinstance(listed, MappedVocabulary) else p, SPECIAL_TOKENS[0]
        if isinstance(listed, ListedVocabulary) or inner.piece_to_id(first) != RESERVED_TOKENS.index(first):
            self._alphabet = Alphabet()
        else:
            self._alphabet = ByteLevel() if inner.is_control(inner.piece_to_id(BYTE_LEVEL)) else PrivateUse()
        self.is_byte_level = isinstance(self._alphabet, ByteLevel)
        self.form = form
        self.languages: dict[str, int] = {}
        self.before: list[int] = []
        self.after: list[int] = []
        self.hidden: list[int] = []
        self.tag_ids: dict[str, int] = {}
        self.inner_model = None if self._is_listed else model
        if isinstance(listed, MappedVocabulary):
            self.before, self.after = listed.token_list.before, listed.token_list.after
            self.hidden = listed.token_list.hidden
            self.languages, self.tag_ids = listed.token_list.languages, listed.token_list.tags
            self.inner_model = listed.sentencepiece_model
        self.sentencepiece_model = None if self.is_byte_level else self.inner_model
        if listed is None:
            self.vocab = Vocab(p.get_piece_size(), p.pad_id(), p.unk_id(), p.bos_id(), p.eos_id())
        else:
            self.vocab = listed.vocab
        self._sampler: Callable[..., list[int]] | None = None  # built on first use
        self.is_byte = [p.is_byte(token_id) for token_id in range(self.vocab.size)]

    def with_tokens(self, kept: Sequence[int], languages: Mapping[str, int], tags: Mapping[str, int]) -> Tokenizer:
        """The tokenizer with some of its tokens, which keep their order; a line of these alone keeps its tokens.

        Args:
            kept: ids, ascending, with all special ones and those of `languages` and `tags`.
            languages: by code, the ids of tokens that texts of a language begin with.
            tags: by name, the ids of tags.

        Raises:
            ValueError: the tokenizer has no sentencepiece model.
        """
        listed = replace(self.token_list, languages=dict(languages), tags=dict(tags))
        return Tokenizer(with_kept_tokens(self._inner(), listed, kept), form=self.form)

    def with_language(self, code: str, relative: str) -> Tokenizer:
        """The tokenizer of a model of another program with one more language, whose token comes after all others.

        Args:
            code: of the new language.
            relative: code of one of `languages`, whose token it is like.

        Raises:
            ValueError: the tokenizer has no sentencepiece model.
        """
        listed, like = self.token_list, self.languages[relative]
        name = listed.tokens[like].replace(relative, code)
        if name in listed.tokens:
            name = next(unused_names(listed.tokens))
        number = len(listed.tokens)
        control, hidden = ([*ids, *([number] if like in ids else [])] for ids in (listed.control, listed.hidden))
        languages = {**listed.languages, code: number}
        tokens = replace(listed, tokens=[*listed.tokens, name], languages=languages, control=control, hidden=hidden)
        return Tokenizer(with_vocabulary(self._inner(), tokens), form=self.form)

    def _inner(self) -> bytes:
        if self.inner_model is None:
            raise ValueError("only the tokens of sentencepiece models are changed")
        return self.inner_model

    @cached_property
    def token_list(self) -> TokenList:
        """The tokens with their roles; of a tokenizer with a sentencepiece model."""
        if isinstance(self._processor, MappedVocabulary):
            return self._processor.token_list
        vocab = self.vocab
        return TokenList(self.model_pieces, vocab.pad, vocab.unk, vocab.bos, vocab.eos, self.special_ids)

    @classmethod
    def load(cls, path: Path, *, form: TextForm = AS_IT_IS) -> Tokenizer:
        """Read a model file that mtkit wrote; `import_tokenizer` reads those of other programs too.

        Raises:
            MissingInputError, ReadWriteError: as `files.translate_read_errors`.
            DataError: the file is no model, or one without the special tokens.
        """
        model = read_file(path)
        try:
            tokenizer = cls(model, form=form)
        except RuntimeError as error:
            raise DataError(f"{path}: not a sentencepiece model, or a damaged one; train it again") from error
        if reason := tokenizer.unsupported():
            raise DataError(f"{path}: {reason}; train a model with mtkit train-bpe")
        return tokenizer

    def unsupported(self) -> str | None:
        """Reason why a model of other settings cannot be used, or None."""
        try:
            pieces = self.model_pieces
        except UnicodeDecodeError:
            return "a token of the model is not UTF-8, so that the file is damaged"
        control = {pieces[token_id] for token_id in self.special_ids}
        if missing := [token for token in SPECIAL_TOKENS if token not in control]:
            return f"the model has no special token {missing[0]}"
        return None if min(self.vocab.pad, self.vocab.bos, self.vocab.eos) >= 0 else "the model has no pad, bos or eos"

    def save(self, path: Path) -> None:
        """Write the model file, byte for byte as it was read."""
        write_bytes(path, self.model)

    def hash(self) -> str:
        """SHA-256 of the model file, in hexadecimal."""
        return hashlib.sha256(self.model).hexdigest()

    def normalise(self, line: str) -> str:
        """The line after normalisation; the function is idempotent."""
        return self.form.normalise(line)

    def model_text(self, line: str) -> str:
        """The line as the model reads it: normalised, and with its characters."""
        return self._alphabet.escape(self.normalise(line))

    def encode(self, lines: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """The ids of each line, without bos and eos. Large batches are fast, and only they benefit from threads."""
        prepared = [self.model_text(line) for line in lines]
        if len(prepared) == 1 and not self._is_listed:  # sentencepiece starts a thread for any list
            return [self._processor.encode(prepared[0])]
        ids: list[list[int]] = self._processor.encode(prepared, num_threads=threads)
        return ids

    def encode_as_tokens(self, lines: Sequence[str]) -> list[list[str]]:
        """The tokens of each line as `ids_to_tokens` writes them; every unknown character is a token of its own."""
        result: list[list[str]] = []
        for line, ids in zip(lines, self.encode(lines), strict=True):
            if self.vocab.unk not in ids:
                result.append(self.ids_to_tokens(ids))
                continue
            # an unknown character never has the name of a token of the model
            pieces: list[str] = self._processor.encode([self.model_text(line)], out_type=str)[0]
            tokens: list[str] = []
            for piece, token_id in zip(pieces, self._processor.piece_to_id(pieces), strict=True):
                is_spelled = token_id == self.vocab.unk and not self._is_listed
                tokens.extend(piece if is_spelled else [piece])
            result.append(list(map(self._alphabet.unescape_token, tokens)))
        return result

    def spell(self, line: str, ids: Sequence[int]) -> list[str]:
        """The tokens of a line, one for each of its ids, with unknown ones as they stand in the line."""
        if self.vocab.unk not in ids or self._is_listed:
            return self.ids_to_tokens(ids)
        tokens = self._processor.encode(self.model_text(line), out_type=str)
        return list(map(self._alphabet.unescape_token, tokens))

    def decode_tokens(self, lines: Sequence[Sequence[str]]) -> list[str]:
        """The text of tokens as `encode_as_tokens` writes them; one that the model lacks stands for its characters."""
        tokens = [[self._alphabet.escape_token(token) for token in line] for line in lines]
        texts: list[str] = self._processor.decode(tokens, num_threads=1) if tokens else []
        ids = [self._processor.piece_to_id(line) for line in tokens]
        return [self._unescape(text, each) for text, each in zip(texts, ids, strict=True)]

    def sample(self, line: str, *, seed: int, alpha: float) -> list[int]:
        """A random segmentation; a pure function of its arguments, in any thread and process.

        BPE-dropout with probability `alpha` (Provilkov et al. 2020), or for a unigram model a sample with
        probabilities to the power `alpha` (Kudo 2018).

        Raises:
            RuntimeError: a word or char model, which has one segmentation only.
        """
        if self._sampler is None:
            self._sampler = self._processor.sample if self._is_listed else SubwordSampler(self._processor)
        return self._sampler(self.model_text(line), seed=seed, alpha=alpha)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence; special tokens are dropped, bytes that form no character become U+FFFD.

        Raises:
            IndexError: an id outside the vocabulary.
        """
        if len(ids) == 1 and not self._is_listed:
            texts = [self._processor.decode(list(ids[0]))]
        else:
            texts = self._processor.decode([list(sequence) for sequence in ids], num_threads=1) if ids else []
        return [self._unescape(text, sequence) for text, sequence in zip(texts, ids, strict=True)]

    def _unescape(self, text: str, ids: Sequence[int]) -> str:
        if SPACE_MARK in text:
            # A space that was written as bytes. Only the mark before the first word represents no space, and
            # sentencepiece has already dropped it unless that mark was written as bytes too, or is itself unknown.
            first = next(token_id for token_id in ids if not self._processor.is_control(token_id))
            if self.is_byte[first] or first == self.vocab.unk:
                text = text.removeprefix(SPACE_MARK)
            text = text.replace(SPACE_MARK, " ")
        return self._alphabet.unescape(text)

    def ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens as strings, for plots and reports; a space is written U+2581."""
        return [self._token_strings[token_id] for token_id in ids]

    @cached_property
    def _token_strings(self) -> list[str]:
        return [self._alphabet.unescape_token(piece) for piece in self.model_pieces]

    @cached_property
    def characters(self) -> frozenset[str] | None:
        """The characters that tokens have; None if its tokens are of bytes, which every character has."""
        tokens = (token for token, is_byte in zip(self._token_strings, self.is_byte, strict=True) if not is_byte)
        return None if self.is_byte_level else frozenset("".join(tokens))

    def token_bytes(self) -> list[bytes]:
        """The surface of each token in UTF-8, with U+2581 for a space; empty for special tokens.

        The concatenation equals the decoded text, except for the space before the first word or after the last, and
        for bytes that form no character.
        """
        pieces = self.model_pieces
        texts = [self._processor.surface(piece) for piece in pieces] if self._is_listed else pieces
        surfaces = [self._alphabet.piece_bytes(text) for text in texts]
        for token_id in self.special_ids:
            surfaces[token_id] = b""
        for token_id, is_byte in enumerate(self.is_byte):
            if is_byte:
                surfaces[token_id] = bytes([int(pieces[token_id][1:-1], 16)])  # such as <0x0A>
        surfaces[self.vocab.unk] = f"{SPACE_MARK}{UNKNOWN_SURFACE}{SPACE_MARK}".encode()
        return surfaces

    def text_bytes(self, text: str) -> bytes:
        """A text in the encoding of `token_bytes`."""
        return self._alphabet.text_bytes(self.normalise(text))

    def tokens_to_ids(self, tokens: Sequence[str]) -> list[int]:
        """The ids of tokens as `ids_to_tokens` writes them; KeyError if the vocabulary lacks one."""
        ids: list[int] = self._processor.piece_to_id([self._alphabet.escape_token(token) for token in tokens])
        unknown = self._processor.id_to_piece(self.vocab.unk)
        for token, token_id in zip(tokens, ids, strict=True):
            if token_id == self.vocab.unk and token != unknown:
                raise KeyError(token)
        return ids

    def token_to_id(self, token: str) -> int:
        """The id of a token such as those of vocab.py; KeyError if the vocabulary lacks it."""
        token_id: int = self._processor.piece_to_id(token)
        if token_id == self.vocab.unk:
            raise KeyError(token)
        return token_id

    def ending(self) -> list[int]:
        """The ids after every source: those of `after`, and the end of sentence."""
        return [*self.after, self.vocab.eos]

    @property
    def model_pieces(self) -> list[str]:
        """The tokens by id, as the model file names them."""
        pieces: list[str] = self._processor.id_to_piece(list(range(self.vocab.size)))
        return pieces

    @cached_property
    def special_ids(self) -> list[int]:
        """The ids that no text produces (pad, bos, eos and the reserved tokens), ascending; unk is not among them."""
        return [token_id for token_id in range(self.vocab.size) if self._processor.is_control(token_id)]


class Alphabet:
    """The characters that represent a text inside a sentencepiece model.

    This is the alphabet of models of other programs: a text represents itself.
    """

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
    """The alphabet of byte-level models: each byte of the text in UTF-8 is one character.

    256 tokens then cover every text, and none is unknown (Wang et al. 2020, https://arxiv.org/abs/1909.03341).

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
