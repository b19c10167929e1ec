"""Ids with a meaning for search, of a tokenizer."""

from __future__ import annotations

from mtkit.search.hypothesis import SpecialIds
from mtkit.text.tokenizer import Tokenizer


def special_ids(tokenizer: Tokenizer, *, allow_unknown: bool = False) -> SpecialIds:
    """Ids with a meaning for search; control tokens are never generated, the unknown token only if allowed."""
    vocab = tokenizer.vocab
    banned = {*tokenizer.special_ids(), vocab.pad, vocab.bos} - {vocab.eos}
    if not allow_unknown:
        banned.add(vocab.unk)
    return SpecialIds(vocab.size, vocab.bos, vocab.eos, tuple(sorted(banned)))
