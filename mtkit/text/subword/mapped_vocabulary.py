"""A sentencepiece model with the token ids of another vocabulary, as Marian, fairseq and their descendants use it.

The file is a sentencepiece model, byte for byte, after one more field that sentencepiece ignores: a JSON object with
the tokens in the order of their ids and the ids with a meaning. A piece that the vocabulary lacks is unknown, and a
token that the model lacks is generated as it is, but no text is segmented into it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import sentencepiece

from mtkit.io.json_text import parse_json
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.listed_vocabulary import UNKNOWN_TEXT
from mtkit.text.subword.protobuf import bytes_field, first_field
from mtkit.text.subword_regularization import SubwordSampler

_VOCABULARY = 1000  # number of the field, among those that sentencepiece_model.proto leaves to others
HEADER = bytes_field(_VOCABULARY, b"")[:-1]  # how such a file begins


@dataclass(frozen=True)
class TokenList:
    """The tokens of a vocabulary.

    Attributes:
        tokens: by id.
        pad: see Vocab, like the next three.
        control: ids that no text produces and no translation contains; eos is among them, unk is not.
        tags: ids of tokens before the source that name its language or that of the target, by name.
        before: ids of tokens before every text, such as the name of its language.
        hidden: further ids that no text produces, and that the text of a translation leaves out.
    """

    tokens: list[str]
    pad: int
    unk: int
    bos: int
    eos: int
    control: list[int]
    tags: dict[str, int] = field(default_factory=dict)
    before: list[int] = field(default_factory=list)
    hidden: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raise ValueError if the ids do not fit the tokens."""
        ids = [self.pad, self.unk, self.bos, self.eos, *self.control, *self.tags.values(), *self.before, *self.hidden]
        if not {*map(type, self.tokens)} <= {str} or len({*self.tokens}) < len(self.tokens):
            raise ValueError("a token occurs twice, or is no text")
        if not all(type(each) is int and 0 <= each < len(self.tokens) for each in ids):
            raise ValueError(f"an id is not among those of {len(self.tokens)} tokens")
        if self.unk in self.control or not {self.pad, self.eos} <= set(self.control):
            raise ValueError("pad and eos must be control tokens, and unk none")


def with_vocabulary(model: bytes, tokens: TokenList) -> bytes:
    """The content of a file: a sentencepiece model with another vocabulary."""
    return bytes_field(_VOCABULARY, json.dumps(asdict(tokens), ensure_ascii=False).encode()) + model


def with_control_tokens(content: bytes, names: Sequence[str]) -> bytes:
    """The content of a file with further control tokens after all others."""
    vocabulary = MappedVocabulary(content)
    tokens = vocabulary.token_list
    size = len(tokens.tokens)
    added = list(range(size, size + len(names)))
    more = replace(tokens, tokens=[*tokens.tokens, *names], control=[*tokens.control, *added])
    return with_vocabulary(vocabulary.sentencepiece_model, more)


class MappedVocabulary:
    """A sentencepiece model and a vocabulary, with those methods of SentencePieceProcessor that Tokenizer calls."""

    def __init__(self, content: bytes) -> None:
        """Parse the content of a file; RuntimeError if it is not valid."""
        try:
            vocabulary, self.sentencepiece_model = first_field(content)
            self.token_list = TokenList(**parse_json(vocabulary))
            if not self.sentencepiece_model:
                raise ValueError("no sentencepiece model")
        except (ValueError, TypeError) as error:
            raise RuntimeError(f"the vocabulary is not valid: {error}") from error
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.sentencepiece_model)
        self._names = self.token_list.tokens
        self._ids = {name: token_id for token_id, name in enumerate(self._names)}
        self._control = frozenset(self.token_list.control)
        self._hidden = self._control.union(self.token_list.hidden)
        size = self._processor.get_piece_size()
        texts: list[str] = self._processor.id_to_piece(list(range(size)))
        self._mapped = [self._id_of(text) for text in texts]  # of each id of the sentencepiece model
        self._bytes = {text for token_id, text in enumerate(texts) if self._processor.is_byte(token_id)}

    def encode(self, lines: Sequence[str], *, num_threads: int = 1, out_type: type = int) -> Any:
        """The ids of each line, or with `out_type` str its pieces."""
        pieces = self._processor.encode(list(lines), out_type=out_type, num_threads=num_threads)
        if out_type is str:
            return pieces
        mapped, unk = self._mapped, self._processor.unk_id()
        return [
            # characters that the model lacks may be a token of the vocabulary, such as one of the other language
            [*map(self._id_of, self._processor.encode(text, out_type=str))]
            if unk in line
            else [mapped[piece] for piece in line]
            for text, line in zip(lines, pieces, strict=True)
        ]

    def _id_of(self, piece: str) -> int:
        """The id of a piece of text, which is no control token."""
        token_id = self._ids.get(piece, self.token_list.unk)
        return self.token_list.unk if token_id in self._hidden else token_id

    def sample(self, line: str, *, seed: int, alpha: float) -> list[int]:
        """See SubwordSampler."""
        return [self._mapped[piece] for piece in self._sampler(line, seed=seed, alpha=alpha)]

    @cached_property
    def _sampler(self) -> SubwordSampler:
        return SubwordSampler(self._processor)

    def decode(self, lines: Sequence[Sequence[int | str]], *, num_threads: int = 1) -> list[str]:
        """The text of each sequence of ids or names, without control tokens and outer white space."""
        unk = self._names[self.token_list.unk]
        texts = []
        for line in lines:
            names = [each if isinstance(each, str) else self._names[each] for each in line]
            names = [name for name in names if self._ids.get(name) not in self._hidden and name != unk]
            is_plain = self._bytes.isdisjoint(names)
            text: str = "".join(names) if is_plain else self._processor.decode(names)
            texts.append(text.replace(SPACE_MARK, " ").strip())
        return texts

    def surface(self, name: str) -> str:
        """The text of a token, with U+2581 for the space before a word."""
        return SPACE_MARK + UNKNOWN_TEXT.strip() if self._ids.get(name) == self.token_list.unk else name

    def get_piece_size(self) -> int:
        """Size of the vocabulary."""
        return len(self._names)

    def pad_id(self) -> int:
        """Id of the padding token."""
        return self.token_list.pad

    def unk_id(self) -> int:
        """Id of the unknown token."""
        return self.token_list.unk

    def bos_id(self) -> int:
        """Id of the token that the decoder reads first, often that of padding or of the end."""
        return self.token_list.bos

    def eos_id(self) -> int:
        """Id of the end of a sentence."""
        return self.token_list.eos

    def is_byte(self, token_id: int) -> bool:
        """Return whether a token is a byte."""
        return self._names[token_id] in self._bytes

    def is_control(self, token_id: int) -> bool:
        """Return whether no text produces a token."""
        return token_id in self._control

    def id_to_piece(self, ids: Sequence[int] | int) -> Any:
        """The name of a token, or of each token."""
        return self._names[ids] if isinstance(ids, int) else [self._names[token_id] for token_id in ids]

    def piece_to_id(self, names: Sequence[str] | str) -> Any:
        """The id of a name, or of each name; that of the unknown token if there is none."""
        unk = self.token_list.unk
        return self._ids.get(names, unk) if isinstance(names, str) else [self._ids.get(name, unk) for name in names]
