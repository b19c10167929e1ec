"""Small untrained models in folders, with words of their own."""

from __future__ import annotations

import random
from pathlib import Path

import torch

from mtkit.model_folder.folder import ModelMetadata, write_model
from mtkit.models.capabilities import ModelConfigBase
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.weights import weights

WORDS = [
    "the",
    "a",
    "dog",
    "cat",
    "man",
    "woman",
    "sees",
    "finds",
    "big",
    "small",
    "red",
    "house",
    "and",
    "in",
    ",",
    ".",
]


def sentences(count: int, longest: int = 9) -> list[str]:
    rng = random.Random(5)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(count)]


def write_toy_model(
    folder: Path,
    tokenizers: TokenizerPair,
    config: ModelConfigBase,
    *,
    seed: int = 1,
    languages: tuple[str, str] = ("en", "de"),
) -> Path:
    """Write an untrained model; returns its folder."""
    torch.manual_seed(seed)
    size = tokenizers.src.vocab.size
    model = config.build(size, size)
    with torch.no_grad():  # far from uniform, so that there are no near-ties, and sentences end
        model.output.weight.mul_(3)
    description = ModelMetadata(
        src_lang=languages[0],
        tgt_lang=languages[1],
        max_source_length=60,
        tokenizer=tokenizers.config,
        model=config,
        search=SearchConfig(beam_size=2, max_length=MaxLength(factor=1.0, offset=5)),
    )
    write_model(folder, weights(model), description, tokenizers, card="a toy\n")
    return folder
