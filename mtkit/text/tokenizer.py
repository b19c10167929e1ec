"""Text to ids and back: one sentencepiece model, and the pair of them that a translation system has.

Kudo and Richardson 2018, https://arxiv.org/abs/1808.06226. With identity normalisation `decode(encode(x)) == x` for
every line x whose characters the model knows; with byte fallback, for every line. The one exception is U+2581, which
is replaced (see normalise.py).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import sentencepiece
from pydantic import Field

from mtkit.errors import DataError
from mtkit.io.files import load_json, reading, write_bytes, write_json
from mtkit.text.normalise import SPACE_MARK, Normalisation, normalise
from mtkit.text.subword_regularization import Sampler
from mtkit.text.vocab import Vocab

FORMAT = 1  # of tokenizer.json
UNKNOWN_SURFACE = "\u2047"  # what an unknown piece is written as

# Characters that sentencepiece's trainer refuses to learn (NUL, tab) or skips a whole line for (U+2585). To it they are
# private-use characters, and the other way round: a swap loses nothing.
_SWAPPED = {"\0": "\U0010fff0", "\t": "\U0010fff1", "\u2585": "\U0010fff2"}
_SWAP = str.maketrans(_SWAPPED | {there: here for here, there in _SWAPPED.items()})
_TO_SWAP = re.compile("[" + "".join(map(chr, _SWAP)) + "]")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """How the subword models are learned and used."""

    model_type: Literal["bpe", "unigram", "word", "char"] = "bpe"
    vocab_size: Annotated[int, Field(gt=0, le=10_000_000)] = 8000  # with the reserved ones; suits 30k sentence pairs
    shared: bool = True  # one model for both sides; false: one for each, of vocab_size pieces each
    byte_fallback: bool = False  # unknown characters become bytes: every line survives, at the price of 256 pieces
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0  # below 1 rare characters become unknown
    sampling: Annotated[float, Field(ge=0, lt=1)] = 0.0  # in training: BPE-dropout's p, or unigram's alpha; 0 is off
    normalisation: Normalisation = "identity"
    split_digits: bool = False  # every digit a piece of its own
    max_lines: Annotated[int, Field(gt=0)] = 10_000_000  # to learn from, taken evenly from longer text; bounds memory

    def __post_init__(self) -> None:
        if self.sampling and self.model_type in ("word", "char"):
            raise ValueError(
                f"sampling: a {self.model_type} model has one segmentation only; set it to 0 or model_type to bpe"
            )


class Tokenizer:
    """One sentencepiece model.

    Attributes:
        vocab: its size and special ids.
        normalisation: what is done to a line first.
    """

    def __init__(self, model: bytes, *, normalisation: Normalisation = "identity") -> None:
        """Take the bytes of a sentencepiece model file; RuntimeError if they are not one."""
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.normalisation: Normalisation = normalisation
        self.vocab = Vocab(
            size=self._processor.get_piece_size(),
            pad=self._processor.pad_id(),
            unk=self._processor.unk_id(),
            bos=self._processor.bos_id(),
            eos=self._processor.eos_id(),
        )
        self._sampler: Sampler | None = None  # made when it is asked for
        self._is_byte = [self._processor.is_byte(piece) for piece in range(self.vocab.size)]

    @classmethod
    def load(cls, path: Path, *, normalisation: Normalisation = "identity") -> Tokenizer:
        """Read a sentencepiece model file.

        Raises:
            MissingInputError, ReadWriteError: as `files.reading`.
            DataError: the file is no sentencepiece model, or one without pad, bos or eos.
        """
        with reading(path):
            model = path.read_bytes()
        try:
            tokenizer = cls(model, normalisation=normalisation)
        except RuntimeError as error:
            raise DataError(f"{path}: not a sentencepiece model, or a damaged one; learn it again") from error
        if min(tokenizer.vocab.pad, tokenizer.vocab.bos, tokenizer.vocab.eos) < 0:
            raise DataError(f"{path}: the model has no padding, begin or end piece; learn one with mtkit train-bpe")
        return tokenizer

    def save(self, path: Path) -> None:
        """Write the model file, byte for byte as it was read."""
        write_bytes(path, self._model)

    def hash(self) -> str:
        """SHA-256 of the model file, in hexadecimal."""
        return hashlib.sha256(self._model).hexdigest()

    def normalise(self, line: str) -> str:
        """The line as it is segmented; doing it twice changes nothing more."""
        return normalise(line, self.normalisation)

    def encode(self, lines: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """The ids of each line, without bos and eos. Large batches are fast, and threads help only with them."""
        prepared = [to_pieces_text(self.normalise(line)) for line in lines]
        ids: list[list[int]] = self._processor.encode(prepared, num_threads=threads)
        return ids

    def sample(self, line: str, *, seed: int, alpha: float) -> list[int]:
        """A random segmentation; a pure function of its arguments, in any thread and process.

        BPE-dropout (Provilkov et al. 2020) with probability `alpha`, or a draw from the unigram model's segmentations
        with probabilities to the power `alpha` (Kudo 2018).

        Raises:
            RuntimeError: a word or char model, which has nothing to sample from.
        """
        if self._sampler is None:
            self._sampler = Sampler(self._processor)
        return self._sampler(to_pieces_text(self.normalise(line)), seed=seed, alpha=alpha)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence; control pieces vanish, bytes that form no character become U+FFFD.

        Raises:
            IndexError: an id outside the vocabulary.
        """
        texts: list[str] = self._processor.decode([list(sequence) for sequence in ids], num_threads=1) if ids else []
        return [self._finish(text, sequence) for text, sequence in zip(texts, ids, strict=True)]

    def _finish(self, text: str, ids: Sequence[int]) -> str:
        if SPACE_MARK in text:
            # A space that was written as bytes. Only the mark before the first word stands for no space, and
            # sentencepiece has dropped it already if it was a piece.
            first = next(piece for piece in ids if not self._processor.is_control(piece))
            if self._is_byte[first]:
                text = text.removeprefix(SPACE_MARK)
            text = text.replace(SPACE_MARK, " ")
        return _swap(text)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces by name, for pictures and reports; a space is written U+2581."""
        return [self._names[piece] for piece in ids]

    @cached_property
    def _names(self) -> list[str]:
        names: list[str] = self._processor.id_to_piece(list(range(self.vocab.size)))
        return [_swap(name) for name in names]

    def spellings(self) -> list[bytes]:
        """What each piece writes, in UTF-8 with U+2581 for a space; nothing for control pieces.

        Joined they are what the ids are decoded to, but for the space before the first word and for bytes that form no
        character.
        """
        names: list[str] = self._processor.id_to_piece(list(range(self.vocab.size)))
        spelled = [name.encode() for name in names]
        for piece in self.control_ids():
            spelled[piece] = b""
        for piece in (piece for piece, is_byte in enumerate(self._is_byte) if is_byte):
            spelled[piece] = bytes([int(names[piece][1:-1], 16)])  # such as <0x0A>
        spelled[self.vocab.unk] = f"{SPACE_MARK}{UNKNOWN_SURFACE}{SPACE_MARK}".encode()
        return spelled

    def spelling(self, text: str) -> bytes:
        """A text as `spellings` has it."""
        return to_pieces_text(self.normalise(text)).replace(" ", SPACE_MARK).encode()

    def piece_ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids of pieces by the names that `pieces` gives; KeyError if the vocabulary lacks one."""
        ids: list[int] = self._processor.piece_to_id([_swap(piece) for piece in pieces])
        unknown = self._processor.id_to_piece(self.vocab.unk)
        for piece, number in zip(pieces, ids, strict=True):
            if number == self.vocab.unk and piece != unknown:
                raise KeyError(piece)
        return ids

    def piece_id(self, piece: str) -> int:
        """The id of a piece such as those of controls.py; KeyError if the vocabulary lacks it."""
        number: int = self._processor.piece_to_id(piece)
        if number == self.vocab.unk:
            raise KeyError(piece)
        return number

    def control_ids(self) -> list[int]:
        """The ids that no text produces (pad, bos, eos and the reserved pieces), ascending."""
        return [piece for piece in range(self.vocab.size) if self._processor.is_control(piece)]


def to_pieces_text(line: str) -> str:
    """The line as sentencepiece is given it, in learning as in segmenting: what it cannot learn is swapped."""
    return _swap(line)


def _swap(text: str) -> str:
    return text.translate(_SWAP) if _TO_SWAP.search(text) else text


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of both sides; the same object twice if they are shared.

    On disk: `spm.model`, or `src.model` and `tgt.model`, and `tokenizer.json`.
    """

    src: Tokenizer
    tgt: Tokenizer
    config: TokenizerConfig

    @property
    def shared(self) -> bool:
        """Whether both sides have one vocabulary."""
        return self.config.shared

    def hash(self) -> str:
        """Changes if anything changes that decides the ids of a text."""
        parts = (self.src.hash(), self.tgt.hash(), self.src.normalisation, self.tgt.normalisation)
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    @classmethod
    def load(cls, folder: Path) -> TokenizerPair:
        """Read what `save` wrote.

        Raises:
            MissingInputError: the folder or one of its files is not there.
            DataError: a file is damaged, or was written by a later version.
        """
        path = folder / "tokenizer.json"
        description = load_json(path, remedy="learn the tokenizer again")
        try:
            version, config = description["format"], TokenizerConfig(**description["config"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: damaged, or written by another version of mtkit; learn it again") from error
        if version != FORMAT:
            raise DataError(f"{path}: has format {version}; this mtkit reads format {FORMAT}")
        sides = [
            Tokenizer.load(folder / name, normalisation=config.normalisation) for name in model_names(config.shared)
        ]
        return cls(src=sides[0], tgt=sides[-1], config=config)

    def save(self, folder: Path) -> None:
        """Write the files into a folder that is there.

        Raises:
            ReadWriteError: as `files.writing`.
        """
        for name, tokenizer in zip(model_names(self.shared), (self.src, self.tgt), strict=False):
            tokenizer.save(folder / name)
        write_json(folder / "tokenizer.json", {"format": FORMAT, "config": asdict(self.config)})


def model_names(shared: bool) -> list[str]:
    """The names of the model files, source first."""
    return ["spm.model"] if shared else ["src.model", "tgt.model"]
