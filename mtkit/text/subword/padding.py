"""Padding of a vocabulary: unused tokens after all others, until the size is a multiple of a number."""

from __future__ import annotations

import sentencepiece

from mtkit.text.subword import bpe_codes, mapped_vocabulary, word_piece
from mtkit.text.subword.listed_vocabulary import ListedVocabulary, with_unused
from mtkit.text.subword.mapped_vocabulary import MappedVocabulary
from mtkit.text.subword.protobuf import PieceType, piece_field


def pad_vocabulary(model: bytes, multiple: int) -> bytes:
    """Add the fewest tokens that no text produces until the vocabulary size is a multiple; all ids stay the same.

    Args:
        model: content of a sentencepiece model with special tokens, a file of merges or a vocabulary of WordPiece.
        multiple: 1 changes nothing.
    """
    processor = open_listed_vocabulary(model) or sentencepiece.SentencePieceProcessor(model_proto=model)
    count = -processor.get_piece_size() % multiple
    if not count:
        return model
    if isinstance(processor, ListedVocabulary):
        return with_unused(model, count)
    known = {processor.id_to_piece(token_id) for token_id in range(processor.get_piece_size())}
    names = [name for number in range(len(known) + count) if (name := f"<unused{number}>") not in known]
    if isinstance(processor, MappedVocabulary):
        return mapped_vocabulary.with_control_tokens(model, names[:count])
    return model + b"".join(piece_field(name, kind=PieceType.CONTROL) for name in names[:count])


def padded_size(size: int, multiple: int) -> int:
    """The size of a vocabulary after padding."""
    return -(-size // multiple) * multiple


def open_listed_vocabulary(model: bytes) -> ListedVocabulary | MappedVocabulary | None:
    """The merges, the WordPiece vocabulary or the mapped vocabulary of a file, or None if it is none of them.

    Raises:
        RuntimeError: the file has the header of one of them, and a line that is not valid.
    """
    if model.startswith(bpe_codes.HEADER):
        return bpe_codes.BpeCodes(model)
    if model.startswith(mapped_vocabulary.HEADER):
        return MappedVocabulary(model)
    return word_piece.WordPiece(model) if model.startswith(word_piece.HEADER) else None
