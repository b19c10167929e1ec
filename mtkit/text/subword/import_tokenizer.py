"""Subword models from files: those of mtkit, sentencepiece models of other programs, and BPE codes of subword-nmt.

A sentencepiece model of another program lacks mtkit's special tokens, and often padding or the beginning of a sentence.
They are appended, so that the ids of all its tokens stay the same. Its own normalisation is kept.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import sentencepiece

from mtkit.errors import DataError
from mtkit.io.files import read_file
from mtkit.text.config import ModelType, TokenizerConfig, TokenizerFiles
from mtkit.text.lines import Text, read_lines
from mtkit.text.normalise import AS_IT_IS, SPACE_MARK, TextForm
from mtkit.text.subword.listed_vocabulary import WordPiece, with_characters, with_header
from mtkit.text.subword.mapped_vocabulary import MappedVocabulary, pad_vocabulary
from mtkit.text.subword.protobuf import (
    BOS_PIECE,
    EOS_PIECE,
    MODEL_TYPE,
    NORMALIZER_SPEC,
    PAD_PIECE,
    TRAINER_SPEC,
    UNK_SURFACE,
    PieceType,
    bytes_field,
    first_field,
    piece_field,
    read_fields,
)
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.vocab import SPECIAL_TOKENS, UNKNOWN_SURFACE

_MODEL_TYPES: dict[int, ModelType] = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
_FIRST_PIECE = re.compile(rb"\n[\x00-\x1f]\n[\x00-\x1f]")  # how a sentencepiece model begins: a field with a short text
_NORMALISATION_PROBE = " \ufb01\t A\u0308  \uff21 "  # a ligature, a tab, a decomposed and a full-width letter, spaces


@dataclass(frozen=True)
class ImportedTokenizer:
    """A tokenizer that was read from a file, with all special tokens.

    Attributes:
        notes: sentences for the user about what was added, and about normalisation.
    """

    tokenizer: Tokenizer
    model_type: ModelType
    notes: tuple[str, ...] = ()


def import_tokenizer(path: Path, *, form: TextForm = AS_IT_IS) -> ImportedTokenizer:
    """Read a subword model of any supported kind.

    Raises:
        MissingInputError, ReadWriteError: as `files.translate_read_errors`.
        DataError: the file is neither a sentencepiece model nor a file of merges, or a damaged model, or a text could
            produce a token that mtkit reserves.
    """
    content = read_file(path)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=content) if content else None
    except RuntimeError as error:
        if "null character" in str(error):  # since sentencepiece 0.2.2
            raise DataError(
                f"{path}: a piece holds a null character, which sentencepiece refuses; make another by mtkit train-bpe"
            ) from error
        processor = None
    if content.startswith(WordPiece.header):
        return ImportedTokenizer(Tokenizer.load(path, form=form), "wordpiece")
    if content.startswith(MappedVocabulary.header):
        kind = model_type_of(first_field(content)[1])
        mapped = Tokenizer.load(path, form=form)
        if mapped.after:
            raise DataError(f"{path}: sources end with a token of their language, with which mtkit does not train")
        return ImportedTokenizer(mapped, kind)
    if processor is None and not _FIRST_PIECE.match(content):
        try:
            return ImportedTokenizer(Tokenizer(with_header(content), form=form), "bpe")
        except RuntimeError as error:
            is_text = not re.search(rb"[\x00-\x08]", content) and str(error) != "not UTF-8"
            fault = str(error) if is_text else "no text: another kind of file, or a damaged model"
            raise DataError(
                f"{path}: neither a sentencepiece model nor BPE codes of subword-nmt "
                f"({fault if content else 'the file is empty'}); train a model with mtkit train-bpe"
            ) from error
    # a whole sentencepiece model has the settings that its trainer writes after the pieces
    if processor is None or not {TRAINER_SPEC, NORMALIZER_SPEC} <= {number for number, _, _ in read_fields(content)}:
        raise DataError(
            f"{path}: the sentencepiece model is damaged or cut off; copy the file again, or train a model with mtkit "
            "train-bpe"
        )
    model, added = _with_special_tokens(content, processor, path)
    tokenizer = Tokenizer(model, form=form)
    if reason := tokenizer.unsupported():
        raise DataError(f"{path}: {reason}; train a model with mtkit train-bpe")
    notes = [f"{len(added)} special tokens added ({', '.join(added[:3])}, ...)"] if added else []
    probe = _NORMALISATION_PROBE.replace(" ", SPACE_MARK)  # as a model that changes nothing gives it back
    if processor.normalize(_NORMALISATION_PROBE) not in (probe, SPACE_MARK + probe, probe + SPACE_MARK):
        notes.append("the model normalises text by rules of its own, so that decoding gives normalised text")
    model_type = "byte_bpe" if tokenizer.is_byte_level else model_type_of(content)
    return ImportedTokenizer(tokenizer, model_type, tuple(notes))


def import_pair(
    config: TokenizerConfig, src_files: Sequence[Text] = (), tgt_files: Sequence[Text] = ()
) -> tuple[TokenizerPair, list[str]]:
    """Read the models of `config.model`.

    Args:
        config: with `model`.
        src_files: training text of the source side, whose characters are added to the vocabulary of BPE codes.

    Returns:
        The pair, whose configuration describes the models instead of naming their files; and a sentence about each.

    Raises:
        MissingInputError, ReadWriteError, DataError: as `import_tokenizer`.
        DataError: `config` has subword regularization, which a model does not support.
    """
    paths = model_paths(config)
    texts = [[*src_files, *tgt_files]] if config.shared else [src_files, tgt_files]
    model_types, tokenizers, sentences = [], [], []
    for path, files in zip(paths, texts, strict=True):
        imported = import_tokenizer(path, form=config.form)
        model = imported.tokenizer.model
        if imported.tokenizer.is_codes:
            lines = map(imported.tokenizer.normalise, (line for file in files for line in read_lines(file)))
            model = with_characters(model, {char for line in lines for char in line})
        model = pad_vocabulary(model, config.pad_to_multiple_of)
        tokenizer = Tokenizer(model, form=config.form)
        model_types.append(imported.model_type)
        tokenizers.append(tokenizer)
        size = tokenizer.vocab.size
        sentences.append("; ".join((f"{path}: {imported.model_type}, {size:,} tokens", *imported.notes)))
    try:
        described = replace(config, model=None, model_type=model_types[0], vocab_size=tokenizers[0].vocab.size)
    except ValueError as error:
        raise DataError(f"{paths[0]}: tokenizer.{error}") from error
    return TokenizerPair(src=tokenizers[0], tgt=tokenizers[-1], config=described), sentences


def model_paths(config: TokenizerConfig) -> list[Path]:
    """The files of `config.model`: one if both sides have one vocabulary, else source and target; none without it."""
    if isinstance(config.model, TokenizerFiles):
        return [config.model.src, config.model.tgt]
    return [] if config.model is None else [config.model] * (1 if config.shared else 2)


def planned_vocab_sizes(config: TokenizerConfig) -> tuple[int, int]:
    """The vocabulary sizes of source and target that a recipe leads to: those of its models, or `vocab_size`, padded.

    Raises:
        MissingInputError, ReadWriteError, DataError: as `import_tokenizer`.
    """
    sizes = [import_tokenizer(path).tokenizer.vocab.size for path in model_paths(config)] or [config.vocab_size]
    multiple = config.pad_to_multiple_of
    src, tgt = (-(-size // multiple) * multiple for size in (sizes[0], sizes[-1]))
    return src, tgt


def _with_special_tokens(
    content: bytes, processor: sentencepiece.SentencePieceProcessor, path: Path
) -> tuple[bytes, list[str]]:
    """The model with all special tokens as control pieces after its own pieces, and the names of those added.

    Raises:
        DataError: a special token is an ordinary piece of the model.
    """
    added: list[str] = []
    settings = b""
    roles = ((PAD_PIECE, "<pad>", processor.pad_id()), (BOS_PIECE, "<s>", processor.bos_id()))
    for field, name, token_id in (*roles, (EOS_PIECE, "</s>", processor.eos_id())):
        if token_id < 0:
            stem = name.strip("</>")
            names = itertools.chain((name, f"<mtkit:{stem}>"), (f"<mtkit:{stem}{n}>" for n in itertools.count(2)))
            name = next(each for each in names if _is_free(each, processor) and each not in added)
            added.append(name)
            settings += bytes_field(field, name.encode())
    for token in SPECIAL_TOKENS:
        token_id = processor.piece_to_id(token)
        if _is_free(token, processor):
            added.append(token)
        elif not processor.is_control(token_id):
            raise DataError(
                f"{path}: {token} is an ordinary token of this model, and mtkit reserves it; rename it there, or "
                "train a model with mtkit train-bpe"
            )
    if not added:
        return content, []
    settings += bytes_field(UNK_SURFACE, UNKNOWN_SURFACE.encode())
    pieces = b"".join(piece_field(name, kind=PieceType.CONTROL) for name in added)
    return content + pieces + bytes_field(TRAINER_SPEC, settings), added


def _is_free(name: str, processor: sentencepiece.SentencePieceProcessor) -> bool:
    """Return whether a model has no piece of this name."""
    token_id = processor.piece_to_id(name)
    return bool(token_id == processor.unk_id() and processor.id_to_piece(token_id) != name)


def model_type_of(content: bytes) -> ModelType:
    """The kind of a sentencepiece model: the last value of its field, or the format's default."""
    specs = b"".join(cast(bytes, value) for number, value, _ in read_fields(content) if number == TRAINER_SPEC)
    kinds: Sequence[int] = [cast(int, value) for number, value, _ in read_fields(specs) if number == MODEL_TYPE]
    return _MODEL_TYPES[kinds[-1] if kinds else 1]
