"""Fixtures for tests of translation."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.text.config import TokenizerConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from tests.unit.translate.toy_translator import sentences


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> TokenizerPair:
    """Tokenizers of the toy language."""
    folder: Path = tmp_path_factory.mktemp("tokenizer")
    text = folder / "text"
    text.write_text("\n".join(sentences(200)) + "\n", encoding="utf-8")
    train_pair([text], [text], folder, TokenizerConfig(vocab_size=170))
    return TokenizerPair.load(folder)
