"""The public Python API: a recipe built in Python is trained, evaluated and used for translation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import mtkit
from mtkit.corpus.config import CorpusConfig, ParallelFiles, TrainParallelFiles
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import SearchConfig
from mtkit.text.config import TokenizerConfig
from mtkit.training.config import TrainingConfig
from mtkit.training.optimisers.schedule import ConstantConfig
from tests.toy.runs import MODELS, sentences, toy, write_all


def python_recipe(training: TrainingConfig) -> mtkit.Recipe:
    """The recipe toy.yaml, built in Python with relative paths."""
    corpus = CorpusConfig(
        src_lang="en",
        tgt_lang="de",
        train=[TrainParallelFiles(src=Path("train.en"), tgt=Path("train.de"))],
        valid=ParallelFiles(src=Path("valid.en"), tgt=Path("valid.de")),
        test={"toy": ParallelFiles(src=Path("test.en"), tgt=Path("test.de"))},
    )
    model = TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1)
    tokenizer = TokenizerConfig(model_type="word", vocab_size=112)
    return mtkit.Recipe(
        name="toy", corpus=corpus, model=model, tokenizer=tokenizer, training=training, search=SearchConfig(beam_size=2)
    )


TRAINING = TrainingConfig(
    max_updates=4,
    validate_every=2,
    checkpoint_every=2,
    batch_tokens=128,
    precision="float32",
    schedule=ConstantConfig(),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_all(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_recipe_built_in_python_is_trained_and_translates(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = mtkit.train(python_recipe(TRAINING))
    assert report.run_dir == folder / "runs" / "toy"
    assert report.content["train"]["updates"] == 4
    saved = mtkit.load_recipe(str(report.run_dir / "recipe.yaml"))
    assert saved.corpus.train[0].src == folder / "train.en"
    assert saved.training == TRAINING
    lines = sentences(3, 2)
    hyps = mtkit.load_model(report.run_dir).translate_lines(lines)
    assert len(hyps) == len(lines)
    bleu = mtkit.evaluate(hyps, [lines]).bleu
    assert bleu is not None
    assert 0 <= bleu.value <= 100

    monkeypatch.chdir("/")  # the saved recipe has absolute paths
    assert "toy" in mtkit.evaluate_run(report.run_dir).content["test"]
    longer = replace(saved, training=replace(saved.training, max_updates=6))
    assert mtkit.run(longer, run_dir=report.run_dir).content["train"]["updates"] == 6


def test_python_and_yaml_give_the_same_model(folder: Path) -> None:
    from_yaml = toy(folder)
    assert from_yaml.model == python_recipe(TRAINING).model, MODELS["transformer"]
    mtkit.train(from_yaml, run_dir=folder / "yaml")
    mtkit.train(python_recipe(from_yaml.training), run_dir=folder / "python")
    weights = [(folder / name / "model" / "model.safetensors").read_bytes() for name in ("yaml", "python")]
    assert weights[0] == weights[1]


def test_all_invalid_values_of_a_recipe_built_in_python_are_reported(folder: Path) -> None:
    recipe = python_recipe(replace(TRAINING, max_updates=-1, precision="float17"))  # type: ignore[arg-type]
    with pytest.raises(mtkit.MtkitError) as caught:
        mtkit.train(recipe)
    message = str(caught.value)
    assert caught.value.exit_code == 78
    assert "recipe 'toy'" in message
    assert "training.max_updates" in message
    assert "training.precision" in message
    assert not (folder / "runs").exists()
