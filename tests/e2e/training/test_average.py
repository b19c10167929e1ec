"""Checkpoint averaging, and models that must not be averaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.errors import DataError
from mtkit.model_folder.folder import read_model, write_model
from mtkit.models.capabilities import ModelConfigBase
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.pipeline.average import average_models
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.training.checkpoints.checkpoint import Checkpoint, write_checkpoint
from mtkit.training.weights import weights
from tests.toy.models import sentences


def test_models_with_different_vocabularies_of_equal_size_are_refused(
    toy_model: Callable[[ModelConfigBase], Path], tmp_path: Path
) -> None:
    one, other, text = (
        toy_model(Seq2SeqRNNConfig(d_model=8, d_embed=8, num_layers=1)),
        tmp_path / "b",
        tmp_path / "text",
    )
    loaded = read_model(one)
    rarer = str.maketrans("aeo", "eoa")  # the same letters, in another order of frequency
    text.write_text("".join(f"{line.translate(rarer)}\n" for line in sentences(200)))
    (tmp_path / "tokenizer").mkdir()
    train_pair([text], [text], tmp_path / "tokenizer", loaded.tokenizers.config)
    pair = TokenizerPair.load(tmp_path / "tokenizer")
    write_model(other, weights(loaded.model), loaded.metadata, pair, card="another toy\n")
    average_models([one, one], tmp_path / "mean")
    with pytest.raises(DataError, match="b: its vocabularies differ from those of"):
        average_models([one, other], tmp_path / "refused")
    assert not (tmp_path / "refused").exists()
    checkpoint = tmp_path / "run/checkpoints/update-1"  # of a run that has a tokenizer and no recipe
    checkpoint.parent.mkdir(parents=True)
    write_checkpoint(Checkpoint({"model": dict(weights(loaded.model))}, {}), checkpoint)
    average_models([one, checkpoint], tmp_path / "unknown")
    (tmp_path / "tokenizer").rename(tmp_path / "run/tokenizer")
    with pytest.raises(DataError, match="update-1: its vocabularies differ from those of"):
        average_models([one, checkpoint], tmp_path / "refused")


def test_models_that_use_weights_of_equal_shape_in_another_way_are_refused(toy_model, tmp_path: Path) -> None:
    keys = {"d_model": 8, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1}
    one, other, noisier = (tmp_path / name for name in ("two_heads", "four_heads", "noisier"))
    toy_model(TransformerConfig(**keys, num_heads=2)).rename(one)
    toy_model(TransformerConfig(**keys, num_heads=4)).rename(other)
    toy_model(TransformerConfig(**keys, num_heads=2, dropout=0.4)).rename(noisier)
    with pytest.raises(DataError, match=r"model\.num_heads is 4 there and 2 here; only checkpoints of one model"):
        average_models([one, other], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
    average_models([one, noisier], tmp_path / "mean")  # dropout acts in training alone
