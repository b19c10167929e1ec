"""Kinds of model files: sentencepiece, sentencepiece with the token ids of another vocabulary, BPE codes, WordPiece.

Marian, fairseq and their descendants use a sentencepiece model with another vocabulary. The file is the sentencepiece
model, byte for byte, after one more field that sentencepiece ignores: a JSON object with the tokens in the order of
their ids and the ids with a meaning. A piece that the vocabulary lacks is unknown, and a token that the model lacks is
generated as it is, but no text is segmented into it.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import sentencepiece

from mtkit.io.json_text import parse_json
from mtkit.text.normalise import SPACE_MARK
from mtkit.text.subword.listed_vocabulary import (
    BpeCodes,
    ListedVocabulary,
    NamedVocabulary,
    WordPiece,
    unused_names,
)
from mtkit.text.subword.protobuf import PieceType, bytes_field, first_field, piece_field, with_unused_pieces
from mtkit.text.subword.sampling import SubwordSampler
from mtkit.text.vocab import UNKNOWN_SURFACE, Vocab

_VOCABULARY = 1000  # number of the field, among those that sentencepiece_model.proto leaves to others


@dataclass(frozen=True)
class TokenList:
    """The tokens of a vocabulary.

    Attributes:
        tokens: by id.
        pad: see Vocab, like the next three.
        control: ids that no text produces and no translation contains; eos is among them, unk is not.
        tags: ids of tokens before the source that name its language or that of the target, by name.
        languages: ids of the tokens that begin the texts of a language, by its code.
        before: ids of tokens before every text of a model of one direction, such as the name of its language.
        hidden: further ids that no text produces, and that the text of a translation leaves out.
        after: ids of tokens between every text and the end of sentence.
        added: ids of tokens that are found in a text before its segmentation, which sees the parts between them.
        keeps_space: a space before such a token is a token; else the parts have no outer space, and the text of a
            translation has spaces around such tokens.
    """

    tokens: list[str]
    pad: int
    unk: int
    bos: int
    eos: int
    control: list[int]
    tags: dict[str, int] = field(default_factory=dict)
    languages: dict[str, int] = field(default_factory=dict)
    before: list[int] = field(default_factory=list)
    hidden: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)
    keeps_space: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError if the ids do not fit the tokens."""
        ids = [self.pad, self.unk, self.bos, self.eos, *self.control, *self.tags.values(), *self.languages.values()]
        ids += [*self.before, *self.hidden, *self.after, *self.added]
        if not {*map(type, self.tokens)} <= {str} or len({*self.tokens}) < len(self.tokens):
            raise ValueError("a token occurs twice, or is no text")
        if not all(type(each) is int and 0 <= each < len(self.tokens) for each in ids):
            raise ValueError(f"an id is not among those of {len(self.tokens)} tokens")
        if self.unk in self.control or not {self.pad, self.eos} <= set(self.control):
            raise ValueError("pad and eos must be control tokens, and unk none")


def with_vocabulary(model: bytes, tokens: TokenList) -> bytes:
    """The content of a file: a sentencepiece model with another vocabulary."""
    return bytes_field(_VOCABULARY, json.dumps(asdict(tokens), ensure_ascii=False).encode()) + model


def with_kept_tokens(model: bytes, listed: TokenList, kept: Sequence[int]) -> bytes:
    """The content of a file with some of the tokens of a list, in their order.

    Pieces of the others are marked as unused: sentencepiece still merges them, and then takes them apart again (BPE),
    or leaves them out of its search (unigram), so that the segmentation into kept pieces does not change.

    Args:
        kept: ids, ascending, with the special ones and those of languages and tags in the list.
    """
    new_ids = {old: new for new, old in enumerate(kept)}
    moved: dict[str, Any] = {}
    for name, value in vars(listed).items():
        if isinstance(value, dict):
            moved[name] = {key: new_ids[each] for key, each in value.items()}
        elif isinstance(value, list) and name != "tokens":
            moved[name] = [new_ids[each] for each in value if each in new_ids]
        elif type(value) is int:
            moved[name] = new_ids[value]
    names = [listed.tokens[token_id] for token_id in kept]
    unused = set(listed.tokens).difference(names)  # a piece that the list lacked stays unknown
    return with_vocabulary(with_unused_pieces(model, unused), replace(listed, tokens=names, **moved))


class MappedVocabulary(NamedVocabulary):
    """A sentencepiece model and a vocabulary, with those methods of SentencePieceProcessor that Tokenizer calls."""

    header = bytes_field(_VOCABULARY, b"")[:-1]

    def __init__(self, content: bytes) -> None:
        """Parse the content of a file; RuntimeError if it is not valid."""
        try:
            vocabulary, self.sentencepiece_model = first_field(content)
            self.token_list = TokenList(**parse_json(vocabulary))
            if not self.sentencepiece_model:
                raise ValueError("no sentencepiece model")
        except (ValueError, TypeError) as error:
            raise RuntimeError(f"the vocabulary is not valid: {error}") from error
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=self.sentencepiece_model)
        listed = self.token_list
        super().__init__(listed.tokens, Vocab(len(listed.tokens), listed.pad, listed.unk, listed.bos, listed.eos))
        self._control = frozenset(listed.control)
        self._hidden = self._control.union(listed.hidden)
        size = self.processor.get_piece_size()
        texts: list[str] = self.processor.id_to_piece(list(range(size)))
        self._mapped = [self._id_of(text) for text in texts]  # of each id of the sentencepiece model
        self._bytes = {text for token_id, text in enumerate(texts) if self.processor.is_byte(token_id)}
        added = sorted((listed.tokens[token_id] for token_id in listed.added), key=len, reverse=True)
        self._added, self._keeps_space = frozenset(added), listed.keeps_space
        self._splits = re.compile(f"({'|'.join(map(re.escape, added))})") if added else None

    def encode(self, lines: Sequence[str], *, num_threads: int = 1, out_type: type = int) -> Any:
        """The ids of each line, or with `out_type` str its pieces."""
        if self._splits is None:
            return self._encode(lines, num_threads, out_type)
        parts = [self._splits.split(line) for line in lines]  # text, added token, text ...
        texts = iter(self._encode([text for line in parts for text in line[::2]], num_threads, out_type))
        space, encoded = SPACE_MARK if out_type is str else self._ids.get(SPACE_MARK), []
        for line in parts:
            tokens: list[Any] = []
            for text, name in itertools.zip_longest(line[::2], line[1::2]):
                tokens += next(texts)
                if name is not None:
                    has_space = self._keeps_space and text.endswith(" ") and space is not None
                    tokens += [*([space] if has_space else []), name if out_type is str else self._ids[name]]
            encoded.append(tokens)
        return encoded

    def _encode(self, lines: Sequence[str], num_threads: int, out_type: type) -> Any:
        pieces = self.processor.encode(list(lines), out_type=out_type, num_threads=num_threads)
        if out_type is str:
            return pieces
        mapped, unk = self._mapped, self.processor.unk_id()
        return [
            # characters that the model lacks may be a token of the vocabulary, such as one of the other language
            [*map(self._id_of, self.processor.encode(text, out_type=str))]
            if unk in line
            else [mapped[piece] for piece in line]
            for text, line in zip(lines, pieces, strict=True)
        ]

    def _id_of(self, piece: str) -> int:
        """The id of a piece of text, which is no control token."""
        token_id = self._ids.get(piece, self.vocab.unk)
        return self.vocab.unk if token_id in self._hidden else token_id

    def sample(self, line: str, *, seed: int, alpha: float) -> list[int]:
        """A random segmentation of the sentencepiece model."""
        return [self._mapped[piece] for piece in self._sampler(line, seed=seed, alpha=alpha)]

    @cached_property
    def _sampler(self) -> SubwordSampler:
        return SubwordSampler(self.processor)

    def decode(self, lines: Sequence[Sequence[int | str]], *, num_threads: int = 1) -> list[str]:
        """The text of each sequence of ids or names, without control tokens and outer white space."""
        unk = self._names[self.vocab.unk]
        texts = []
        for line in lines:
            names = [each if isinstance(each, str) else self._names[each] for each in line]
            names = [name for name in names if self._ids.get(name) not in self._hidden and name != unk]
            if not self._keeps_space and not self._added.isdisjoint(names):
                names = [f" {name} " if name in self._added else name for name in names]
            is_plain = self._bytes.isdisjoint(names)
            text: str = "".join(names) if is_plain else self.processor.decode(names)
            texts.append(text.replace(SPACE_MARK, " ").strip())
        return texts

    def surface(self, name: str) -> str:
        """The text of a token, with U+2581 for the space before a word."""
        return SPACE_MARK + UNKNOWN_SURFACE if self._ids.get(name) == self.vocab.unk else name

    def is_byte(self, token_id: int) -> bool:
        """Return whether a token is a byte."""
        return self._names[token_id] in self._bytes

    def is_control(self, token_id: int) -> bool:
        """Return whether no text produces a token."""
        return token_id in self._control

    def with_unused(self, content: bytes, count: int) -> bytes:
        """The content of the file with unused control tokens after all others."""
        added = range(len(self._names), len(self._names) + count)
        tokens = [*self._names, *itertools.islice(unused_names(self._names), count)]
        listed = replace(self.token_list, tokens=tokens, control=[*self.token_list.control, *added])
        return with_vocabulary(self.sentencepiece_model, listed)


def open_vocabulary(model: bytes) -> ListedVocabulary | MappedVocabulary | None:
    """The vocabulary of a file that is no sentencepiece model alone; None for one that is.

    Raises:
        RuntimeError: the file has the header of a kind, and a line that is not valid.
    """
    kinds = (BpeCodes, MappedVocabulary, WordPiece)
    return next((kind(model) for kind in kinds if model.startswith(kind.header)), None)


def pad_vocabulary(model: bytes, multiple: int) -> bytes:
    """Add the fewest tokens that no text produces until the vocabulary size is a multiple; all ids stay the same.

    Args:
        model: content of a sentencepiece model with special tokens, a file of merges or a vocabulary of WordPiece.
        multiple: 1 changes nothing.
    """
    vocabulary = open_vocabulary(model)
    if vocabulary is not None:
        count = -vocabulary.vocab.size % multiple
        return vocabulary.with_unused(model, count) if count else model
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    known = processor.id_to_piece(list(range(processor.get_piece_size())))
    names = itertools.islice(unused_names(known), -len(known) % multiple)
    return model + b"".join(piece_field(name, kind=PieceType.CONTROL) for name in names)
