"""Small untrained models in folders, for the commands that take a MODEL."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mtkit.model_folder.folder import ModelMetadata, write_model
from mtkit.models.capabilities import ModelConfigBase
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.text.config import TokenizerConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
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


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> TokenizerPair:
    """Of characters, so that a text has one segmentation only."""
    folder = tmp_path_factory.mktemp("tokenizer")
    text = folder / "text"
    text.write_text("".join(f"{line}\n" for line in sentences(200)))
    train_pair([text], [text], folder, TokenizerConfig(model_type="char", vocab_size=122))
    return TokenizerPair.load(folder)


@pytest.fixture
def toy_model(tokenizers: TokenizerPair, tmp_path: Path) -> Callable[[ModelConfigBase], Path]:
    """Makes a model folder of this kind."""

    def make(config: ModelConfigBase) -> Path:
        torch.manual_seed(1)
        size = tokenizers.src.vocab.size
        model = config.build(size, size)
        with torch.no_grad():  # far from uniform, so that there are no near-ties, and sentences end
            model.output.weight.mul_(3)
        description = ModelMetadata(
            src_lang="en",
            tgt_lang="de",
            max_source_length=60,
            tokenizer=tokenizers.config,
            model=config,
            search=SearchConfig(beam_size=2, max_length=MaxLength(factor=1.0, offset=5)),
        )
        folder = tmp_path / f"model-{config.kind}"
        write_model(folder, weights(model), description, tokenizers, card="a toy\n")
        return folder

    return make


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Some lines, two of them blank."""
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in [*sentences(10), "", " \t"]))
    return path
