"""Small untrained models, sentences of a toy language, and translators."""

from __future__ import annotations

import random

import torch

from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.translate.model_engine import ModelEngine
from mtkit.translate.translator import TranslationOptions, Translator

NOUNS = ["dog", "cat", "man", "woman", "house"]
WORDS = ["the", "a", *NOUNS, "sees", "finds", "big", "small", "red", "and", "in", ",", "."]
BLANK = ["", "   ", "\u2028 \t", "\x85"]
UNUSUAL = [*BLANK, "the\u2028dog", "\x0c man", " a  cat ", "\u4e00\u4e8c", "\U0001f600 dog", "a\rb", "\x00"]
MODELS = [
    TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=2),
    AttentionRNNConfig(d_model=16, d_embed=12, d_attention=8),
    Seq2SeqRNNConfig(d_model=16, d_embed=12),
]


def sentences(count: int, max_words: int = 12) -> list[str]:
    rng = random.Random(3)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, max_words))) for _ in range(count)]


def transformer(tokenizers: TokenizerPair, seed: int = 0):
    return build_model(MODELS[0], tokenizers, seed)


def build_model(config, tokenizers: TokenizerPair, seed: int = 0):
    torch.manual_seed(seed)
    model = config.build(tokenizers.src.vocab.size, tokenizers.tgt.vocab.size)
    with torch.no_grad():  # far from uniform, so that there are no near-ties, and sentences end
        model.output.weight.mul_(3)
    return model.eval()


def translator(tokenizers, model=None, *, beam_size=3, max_source_length=None, options=None, **search) -> Translator:
    config = SearchConfig(beam_size=beam_size, max_length=MaxLength(factor=1.0, offset=5), **search)
    options = options or TranslationOptions(with_scores=True)
    engine = ModelEngine([model or transformer(tokenizers)], compute_type="float32")
    return Translator(engine, tokenizers, config, max_source_length=max_source_length, options=options)
