"""Pre-training on text in one language, and translation that begins with what it gave."""

from pathlib import Path

import pytest
import torch

from mtkit import pipeline
from mtkit.errors import MissingInputError
from mtkit.recipe.recipe import load_recipe
from mtkit.training.checkpoints.tensor_file import read_tensors
from tests.e2e.test_pipeline import WORDS, Heard, sentences, write_pair

RECIPE = """\
name: pretraining
corpus:
  src_lang: en
  tgt_lang: de
  train: [{text: train.en}, {text: train.de}]
  valid: {text: valid.de}
  noise: {kind: spans}
tokenizer: {model_type: word, vocab_size: 116}
model: {kind: transformer, d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1}
training:
  max_updates: 2
  validate_every: 2
  checkpoint_every: 1
  batch_tokens: 128
  precision: float32
  moving_average: null
  schedule: {kind: constant}
"""
TRANSLATION = """\
base: tuning-base.yaml
name: tuning
training:
  max_updates: 2
  init_from: {model: before, parts: [embeddings, encoder]}
  word_vectors: {tgt: words.vec}
  freeze: [encoder]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_pair(tmp_path, "train", sentences(40, 0))
    write_pair(tmp_path, "valid", sentences(5, 1))
    (tmp_path / "pretraining.yaml").write_text(RECIPE)
    pairs = "  train: [{src: train.en, tgt: train.de}]\n  valid: {src: valid.en, tgt: valid.de}\n"
    begin, end = RECIPE.index("  train:"), RECIPE.index("tokenizer:")
    (tmp_path / "tuning-base.yaml").write_text(RECIPE[:begin] + pairs + RECIPE[end:])
    (tmp_path / "tuning.yaml").write_text(TRANSLATION)
    (tmp_path / "words.vec").write_text("".join(f"{word} 1 2 3 4 5 6 7 8\n" for word in ("Hund", "Maus")))
    return tmp_path


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    return read_tensors(run / "model" / "model.safetensors")


def test_pretrained_parts_are_found_again_after_fine_tuning(folder: Path) -> None:
    masked = ["corpus.noise={kind: masks}", "training.objective={kind: masked_language_model}"]
    report = pipeline.run(load_recipe(str(folder / "pretraining.yaml"), masked), run_dir=folder / "before")
    assert report.content["train"]["best_update"] == 2
    heard, again = Heard(), Heard()
    short = load_recipe(str(folder / "tuning.yaml"), ["training.max_hours=1e-9"])
    pipeline.train(short, run_dir=folder / "after", display=heard)
    (folder / "words.vec").unlink()  # a training that goes on has its weights from its checkpoint
    pipeline.train(load_recipe(str(folder / "tuning.yaml")), run_dir=folder / "after", display=again)
    assert not {"init_from", "word_vectors"} & again.results.keys()
    model = folder / "before" / "model"
    assert heard.results["tokenizer"] == f"taken from {model}"
    assert heard.results["init_from"] == f"embeddings, encoder of {model}"
    pieces = 2 * len(WORDS)
    assert heard.results["word_vectors"] == f"{folder}/words.vec: 1 of {pieces} pieces (7%) are among its 2 words"
    before, after = weights_of(folder / "before"), weights_of(folder / "after")
    assert before.keys() == after.keys()
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert same == {name for name in before if name.startswith("encoder")}


def test_what_training_begins_with_is_looked_for_before_any_work(folder: Path) -> None:
    recipe = load_recipe(str(folder / "tuning.yaml"))
    with pytest.raises(MissingInputError, match="before: no such"):
        pipeline.train(recipe, run_dir=folder / "after")
    recipe = load_recipe(str(folder / "tuning.yaml"), ["training.init_from=null", "training.word_vectors.tgt=none.vec"])
    with pytest.raises(MissingInputError, match=r"none.vec: no such file; training.word_vectors names it"):
        pipeline.train(recipe, run_dir=folder / "after")
    assert not (folder / "after" / "tokenizer").exists()


def test_denoising_resumes_exactly(folder: Path) -> None:
    recipe = load_recipe(str(folder / "pretraining.yaml"))
    pipeline.train(recipe, run_dir=folder / "whole")
    short = load_recipe(str(folder / "pretraining.yaml"), ["training.max_hours=1e-9"])
    assert pipeline.train(short, run_dir=folder / "parts").content == {}
    pipeline.train(recipe, run_dir=folder / "parts")
    whole, parts = weights_of(folder / "whole"), weights_of(folder / "parts")
    assert [name for name in whole if not torch.equal(whole[name], parts[name])] == []
