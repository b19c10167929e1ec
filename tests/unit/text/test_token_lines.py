"""Lines of tokens and ids: unknown first words, and ids with leading zeros."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.errors import DataError
from mtkit.text.config import ModelType, TokenizerConfig
from mtkit.text.subword.tokenizer import Tokenizer
from mtkit.text.token_lines import UnknownCounts, decode_lines_of_ids, decode_lines_of_tokens, encode_lines
from mtkit.text.train_tokenizer import train_tokenizer

ODD = ["Ǧ", "xyz the", " xyz", "  ", "", "▁ the", "the xyz", "\ufeffa", "😀 the cat", "_x", "</s> the", "the\r"]


def trained(folder: Path, model_type: ModelType, vocab_size: int) -> Tokenizer:
    text = folder / "text"
    text.write_text("".join(f"the cat sees {number} dogs\n" for number in range(9)))
    train_tokenizer([text], folder / "spm", TokenizerConfig(model_type=model_type, vocab_size=vocab_size))
    return Tokenizer.load(folder / "spm.model")


@pytest.mark.parametrize(("model_type", "vocab_size"), [("word", 115), ("char", 120), ("bpe", 124)])
def test_tokens_of_lines_that_begin_with_an_unknown_word(
    tmp_path: Path, model_type: ModelType, vocab_size: int
) -> None:
    tokenizer = trained(tmp_path, model_type, vocab_size)
    encoded = list(encode_lines(ODD, tokenizer, as_ids=False, counts=UnknownCounts()))
    assert list(decode_lines_of_tokens(encoded, tokenizer)) == [tokenizer.normalise(line) for line in ODD]


@pytest.mark.parametrize("word", ["9999999", "00000000009999999", "0" * 5000 + "200", "9" * 5000])
def test_ids_beyond_the_vocabulary_however_they_are_written(tmp_path: Path, word: str) -> None:
    tokenizer = trained(tmp_path, "char", 120)
    with pytest.raises(DataError, match=r"^x:2: id 0*\d+ is not in the vocabulary, whose last id is 119$"):
        list(decode_lines_of_ids(["110", word], tokenizer, "x"))
    for zeros in (1, 5000):
        assert list(decode_lines_of_ids(["0" * zeros + "110"], tokenizer, "x")) == list(
            decode_lines_of_ids(["110"], tokenizer, "x")
        )
