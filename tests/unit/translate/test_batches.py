"""How many sentences are translated at once."""

from __future__ import annotations

import pytest
import torch

from mtkit.search.config import SearchConfig
from mtkit.search.interface import Hypothesis
from mtkit.text.tokenizer import TokenizerConfig, TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.translate.translator import TranslationOptions, Translator


@pytest.fixture
def tokenizers(tmp_path) -> TokenizerPair:
    text = tmp_path / "text"
    text.write_text("the big dog\nthe small cat\n", encoding="utf-8")
    train_pair([text], [text], tmp_path, TokenizerConfig(model_type="char", vocab_size=115))
    return TokenizerPair.load(tmp_path)


class Recording:
    """An engine that remembers how many sentences it was asked for at once."""

    compute_type = "float32"
    device = torch.device("cpu")

    def __init__(self) -> None:
        self.batches: list[int] = []

    def finder(self, search, symbols, *, details):
        return self.find

    def find(self, request):
        self.batches.append(request.num_sentences)
        return [[Hypothesis([5], -1.0, -1.0, [])] for _ in range(request.num_sentences)]


@pytest.mark.parametrize(("beam_size", "expected"), [(1, [6] * 5), (5, [2] * 15)])
def test_a_batch_counts_sentences_and_hypotheses(tokenizers, beam_size, expected) -> None:
    places = len(tokenizers.src.encode(["the big dog"])[0]) + 1
    options = TranslationOptions(batch_tokens=12 * places)
    engine = Recording()
    search = SearchConfig(beam_size=beam_size)
    Translator(engine, tokenizers, search, options=options).translate_lines(["the big dog"] * 30)
    assert engine.batches == expected
