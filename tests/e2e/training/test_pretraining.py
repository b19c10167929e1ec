"""Pre-training on monolingual text, and fine-tuning of a translation model from it."""

import random
from pathlib import Path

import pytest
import torch

from mtkit.cli import entry
from mtkit.errors import MissingInputError, UsageError
from mtkit.pipeline import stages
from mtkit.recipe.recipe import load_recipe
from mtkit.training.checkpoints.tensor_file import read_tensors
from mtkit.translate.load import load_translator
from tests.toy.runs import WORDS, RecordingDisplay, sentences, write_pair
from tests.toy.sampling import sampled

RECIPE = """\
name: pretraining
defaults: fixed
corpus:
  src_lang: en
  tgt_lang: de
  train: [{text: train.en}, {text: train.de}]
  valid: {text: valid.de}
  noise: {kind: span_corruption}
tokenizer: {model_type: word, vocab_size: 116}
model: {kind: transformer, d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1}
training:
  max_updates: 2
  validate_every: 2
  checkpoint_every: 1
  batch_tokens: 128
  precision: float32
  ema: null
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


def test_frozen_pretrained_parts_are_unchanged_after_fine_tuning(folder: Path) -> None:
    masked = ["corpus.noise={kind: mlm}", "training.objective={kind: masked_lm}"]
    report = stages.run(load_recipe(str(folder / "pretraining.yaml"), masked), run_dir=folder / "before")
    assert report.content["train"]["best_update"] == 2
    assert report.lines[-1].startswith("train a translation model from it: training.init_from={model: ")
    with pytest.raises(UsageError, match="a masked language model, whose decoder is not trained; train a translation"):
        load_translator(folder / "before")
    first, resumed = RecordingDisplay(), RecordingDisplay()
    short = load_recipe(str(folder / "tuning.yaml"), ["training.max_hours=1e-9"])
    stages.train(short, run_dir=folder / "after", display=first)
    (folder / "words.vec").unlink()  # a resumed training has its weights from the checkpoint
    stages.train(load_recipe(str(folder / "tuning.yaml")), run_dir=folder / "after", display=resumed)
    assert not {"init_from", "word_vectors"} & resumed.results.keys()
    model = folder / "before" / "model"
    assert first.results["tokenizer"] == f"copied from {model}"
    assert first.results["init_from"] == f"embeddings, encoder of {model}"
    num_tokens = 2 * len(WORDS)
    assert first.results["word_vectors"] == f"{folder}/words.vec: 1 of {num_tokens} tokens (7%) are among its 2 words"
    before, after = weights_of(folder / "before"), weights_of(folder / "after")
    assert before.keys() == after.keys()
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert same == {name for name in before if name.startswith("encoder")}


def test_init_sources_are_checked_before_any_work(folder: Path) -> None:
    recipe = load_recipe(str(folder / "tuning.yaml"))
    with pytest.raises(MissingInputError, match="before: no such"):
        stages.train(recipe, run_dir=folder / "after")
    recipe = load_recipe(str(folder / "tuning.yaml"), ["training.init_from=null", "training.word_vectors.tgt=none.vec"])
    with pytest.raises(MissingInputError, match=r"none.vec: no such file; see training.word_vectors"):
        stages.train(recipe, run_dir=folder / "after")
    assert not (folder / "after" / "tokenizer").exists()


def test_denoising_resumes_exactly(folder: Path) -> None:
    recipe = load_recipe(str(folder / "pretraining.yaml"))
    stages.train(recipe, run_dir=folder / "whole")
    short = load_recipe(str(folder / "pretraining.yaml"), ["training.max_hours=1e-9"])
    assert stages.train(short, run_dir=folder / "parts").content == {}
    stages.train(recipe, run_dir=folder / "parts")
    whole, parts = weights_of(folder / "whole"), weights_of(folder / "parts")
    assert [name for name in whole if not torch.equal(whole[name], parts[name])] == []


def test_blank_lines_of_a_validation_text_score_nothing(folder: Path) -> None:
    """A batch of blank lines alone has no masked token."""
    (folder / "valid.de").write_text("\n" * 40 + "der Hund sieht\n")
    masked = ["corpus.noise={kind: mlm}", "training.objective={kind: masked_lm}", "training.batch_tokens=64"]
    recipe = load_recipe(str(folder / "pretraining.yaml"), masked)
    display = RecordingDisplay()
    stages.train(recipe, run_dir=folder / "run", display=display)
    assert "validation" in display.names


def test_no_command_translates_with_a_masked_language_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    masked = ["corpus.noise={kind: mlm}", "training.objective={kind: masked_lm}"]
    stages.run(load_recipe(str(folder / "pretraining.yaml"), masked), run_dir=folder / "before")
    model, text, rng = str(folder / "before"), folder / "in.txt", random.Random(5)
    text.write_text("the dog\n")
    options = ["--beam-size=2", "--n-best=1", "--jsonl", "--no-rewrite", "--workers=1", "--compute-type=float32"]
    commands = {
        "translate": [model, str(text)],
        "score": [model, "--src", str(text), "--ref", str(text)],
        "bench": [model, str(text)],
        "export": [model, "--to=ctranslate2", f"--output={folder / 'out'}"],
        "explain": [model, "the dog"],
    }
    options_of = {"translate": options, "score": options[5:], "bench": options[5:]}
    capsys.readouterr()
    for _ in range(sampled(200)):
        name = rng.choice(list(commands))
        chosen = rng.sample(options_of.get(name, []), k=rng.randint(0, name in options_of))
        code = entry.execute([name, *commands[name], *chosen])
        captured = capsys.readouterr()
        assert (code, captured.out) == (2, ""), (name, chosen, captured.err)
        assert "a masked language model, whose decoder is not trained; train a translation model" in captured.err
    assert not (folder / "out").exists()
    for target in ("onnx", "huggingface"):
        assert entry.execute(["export", model, "--to", target, "-o", str(folder / "out")]) == 2
        assert "a masked language model, whose decoder is not trained" in capsys.readouterr().err
