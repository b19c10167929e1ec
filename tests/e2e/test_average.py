"""Models whose weights may be averaged, and such as only look like it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.errors import DataError
from mtkit.model_folder.folder import read_model, write_model
from mtkit.models.rnn.seq2seq import LSTMConfig
from mtkit.pipeline import average
from mtkit.recipe.recipe import ModelConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.training.weights import weights
from tests.e2e.conftest import sentences


def test_models_of_other_vocabularies_are_refused_though_all_shapes_are_alike(
    toy_model: Callable[[ModelConfig], Path], tmp_path: Path
) -> None:
    one, other, text = toy_model(LSTMConfig(d_model=8, d_embedding=8, num_layers=1)), tmp_path / "b", tmp_path / "text"
    loaded = read_model(one)
    rarer = str.maketrans("aeo", "eoa")  # the same letters, in another order of frequency
    text.write_text("".join(f"{line.translate(rarer)}\n" for line in sentences(200)))
    (tmp_path / "tokenizer").mkdir()
    train_pair([text], [text], tmp_path / "tokenizer", loaded.tokenizers.config)
    pair = TokenizerPair.load(tmp_path / "tokenizer")
    write_model(other, weights(loaded.model), loaded.description, pair, card="another toy\n")
    average([one, one], tmp_path / "mean")
    with pytest.raises(DataError, match="b: has other vocabularies than"):
        average([one, other], tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
