"""The whole route over a made-up corpus: all kinds of models, what is skipped, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mtkit import pipeline
from mtkit.build.translator import load_translator
from mtkit.errors import BusyError, DataError, MissingInputError, RecipeError
from mtkit.io.lock import RunLock
from mtkit.pipeline import Report, stages
from mtkit.pipeline.prepare_corpus import Stores, make_corpus
from mtkit.pipeline.run_folder import Run
from mtkit.recipe.recipe import Recipe, load_recipe
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.monitoring.meter import Stopwatch

WORDS = {"the": "der", "dog": "Hund", "cat": "Kater", "sees": "sieht", "big": "große", "small": "kleine", "and": "und"}
RECIPE = """\
name: toy
corpus:
  root: .
  src_lang: en
  tgt_lang: de
  train: [{src: train.en, tgt: train.de}]
  valid: {src: valid.en, tgt: valid.de}
  test:
    toy: {src: test.en, tgt: test.de}
tokenizer: {model_type: word, vocab_size: 112}
training:
  max_updates: 4
  validate_every: 2
  checkpoint_every: 2
  batch_tokens: 128
  precision: float32
  schedule: {kind: constant}
  validation: {sentences: 4}
search: {beam_size: 2, max_length: {a: 1.0, b: 4}}
"""
MODELS = {
    "transformer": "{kind: transformer, d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1}",
    "lstm": "{kind: lstm, d_model: 8, d_embedding: 8, num_layers: 1}",
    "attention_rnn": "{kind: attention_rnn, d_model: 8, d_embedding: 8, d_attention: 8}",
}


def sentences(count: int, seed: int) -> list[str]:
    words = list(WORDS)
    return [" ".join(words[(seed + 3 * n + n * k) % len(words)] for k in range(2 + n % 4)) for n in range(count)]


def write_pair(folder: Path, name: str, lines: list[str]) -> None:
    (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines))
    tgt = [" ".join(WORDS[word] for word in line.split()) for line in lines]
    (folder / f"{name}.de").write_text("".join(f"{line}\n" for line in tgt))


def write_all(folder: Path) -> None:
    for name, count, seed in (("train", 60, 0), ("valid", 6, 1), ("test", 7, 2)):
        write_pair(folder, name, sentences(count, seed))
    (folder / "toy.yaml").write_text(RECIPE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_all(tmp_path)
    return tmp_path


class Heard:
    """A display that remembers what became of each stage."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}
        self.names: list[str] = []
        self.damaged: list[str] = []

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        self.names.append(name)
        if name == "damaged":
            self.damaged.append(fields["result"])
        elif "result" in fields:
            self.results[name] = fields["result"]


def toy(folder: Path, *overrides: str, kind: str = "transformer") -> Recipe:
    return load_recipe(str(folder / "toy.yaml"), [f"model={MODELS[kind]}", *overrides])


def run(folder: Path, *overrides: str, kind: str = "transformer", fresh: bool = False) -> tuple[Report, Heard]:
    heard = Heard()
    return pipeline.run(toy(folder, *overrides, kind=kind), run_dir=folder / "run", fresh=fresh, display=heard), heard


@pytest.mark.parametrize("kind", MODELS)
def test_the_whole_route_for_every_kind(folder: Path, kind: str) -> None:
    report, _ = run(folder, kind=kind)
    place = folder / "run"
    assert report.run_dir == place
    for name in (
        "recipe.yaml",
        "corpus",
        "checkpoints/update-00000004",
        "model",
        "log.jsonl",
        "learning_curve.png",
    ):
        assert (place / name).exists(), name
    assert (place / "attention.png").exists() == (kind != "lstm")
    written = json.loads((place / "report.json").read_text())
    assert written == report.content
    assert written["test"]["toy"].keys() >= {
        "bleu",
        "bleu_signature",
        "chrf",
        "ter",
        "beam_size",
        "compute_type",
        "seconds",
    }
    assert written["train"]["updates"] == 4
    hyps = (place / "hyps" / "toy.txt").read_text()
    lines = sentences(7, 2)
    assert hyps.count("\n") == len(lines)
    assert "".join(f"{hyp}\n" for hyp in load_translator(place).translate_lines(lines)) == hyps
    assert sum(line.startswith("  hyp ") for line in report.lines) == 6
    assert any(line.startswith("toy: BLEU ") for line in report.lines)
    assert "| toy |" in (place / "model" / "README.md").read_text()
    assert load_recipe(str(place / "recipe.yaml")) == toy(folder, kind=kind)


def test_what_did_not_change_is_skipped_and_said_so(folder: Path) -> None:
    first, _ = run(folder)
    before = (folder / "run" / "model" / "model.safetensors").stat().st_mtime_ns
    log = (folder / "run" / "log.jsonl").read_bytes()
    second, heard = run(folder)
    kept = {"tokenizer", "train.0", "valid", "lexicon", "training", "translate toy"}
    assert {stage for stage, result in heard.results.items() if result == "unchanged, kept"} == kept
    assert second.lines[0] == "training is finished already, after 4 updates; --fresh starts over"
    assert (folder / "run" / "log.jsonl").read_bytes() == log
    assert "begin" not in heard.names
    assert second.content == first.content
    assert (folder / "run" / "model" / "model.safetensors").stat().st_mtime_ns == before


def test_a_changed_recipe_is_refused_and_nothing_is_lost(folder: Path) -> None:
    run(folder)
    model = (folder / "run" / "model" / "model.safetensors").read_bytes()
    with pytest.raises(RecipeError) as caught:
        run(folder, "training.patience=3", "model.dropout=0.1", "tokenizer.character_coverage=0.99")
    lines = str(caught.value).split("\n")
    assert lines[0].endswith("a training was begun here with another recipe; changed:")
    assert lines[1:4] == [
        "  tokenizer.character_coverage: 1.0, now 0.99",
        "  model.dropout: 0.3, now 0.1",
        "these may change: training.patience",
    ]
    assert "--fresh" in lines[-1]
    with pytest.raises(RecipeError, match=r'model.kind: "transformer", now "lstm"'):
        run(folder, kind="lstm")
    assert (folder / "run" / "model" / "model.safetensors").read_bytes() == model
    assert load_recipe(str(folder / "run" / "recipe.yaml")).model.dropout == 0.3


def test_fresh_starts_over(folder: Path) -> None:
    run(folder)
    report, heard = run(folder, "training.max_updates=2", "training.label_smoothing=0.2", fresh=True)
    assert heard.results["tokenizer"] == "unchanged, kept"
    assert report.content["train"]["updates"] == 2
    assert not (folder / "run" / "checkpoints" / "update-00000004").exists()


def test_harmless_changes_go_on(folder: Path) -> None:
    run(folder)
    report, heard = run(folder, "training.max_updates=6", "search.beam_size=1", "evaluation.metrics=[chrf]")
    assert {"recipe", "resume"} <= set(heard.names)
    assert report.content["train"]["updates"] == 6
    assert report.content["test"]["toy"]["beam_size"] == 1
    assert "bleu" not in report.content["test"]["toy"]


def test_a_changed_search_translates_again_and_trains_no_more(folder: Path) -> None:
    run(folder)
    _, heard = run(folder, "search.beam_size=1")
    assert "begin" not in heard.names
    assert heard.results["translate toy"] != "unchanged, kept"


def test_changed_text_is_used_as_long_as_no_training_was_begun(folder: Path) -> None:
    recipe = toy(folder)
    pipeline.preprocess(recipe, run_dir=folder / "run")
    write_pair(folder, "train", sentences(50, 4))
    heard = Heard()
    report = pipeline.preprocess(recipe, run_dir=folder / "run", display=heard)
    assert heard.results["train.0"].startswith("50 of 50 pairs kept")
    assert report.lines[0].startswith(f"{folder / 'run' / 'corpus' / 'train.0'}: 50 pairs, ")
    pipeline.train(recipe, run_dir=folder / "run")
    write_pair(folder, "train", sentences(40, 5))
    with pytest.raises(
        RecipeError, match="the training text or the tokenizer changed since this training was begun; --fresh"
    ):
        pipeline.train(recipe, run_dir=folder / "run")
    assert pipeline.train(recipe, run_dir=folder / "run", fresh=True).content["train"]["updates"] == 4


def test_a_changed_valid_set_and_moved_text_are_harmless(folder: Path) -> None:
    run(folder)
    write_pair(folder, "valid", sentences(5, 3))
    moved = folder / "moved.en"
    (folder / "train.en").rename(moved)
    _, heard = run(folder, f"corpus.train.0.src={moved}")
    assert heard.results["tokenizer"] == heard.results["train.0"] == "unchanged, kept"
    assert heard.results["valid"].startswith("5 of 5")


def test_another_number_of_corpora_leaves_nothing_behind(folder: Path) -> None:
    two = toy(
        folder, "corpus.train.1.src=" + str(folder / "valid.en"), "corpus.train.1.tgt=" + str(folder / "valid.de")
    )
    pipeline.preprocess(two, run_dir=folder / "run")
    assert (folder / "run" / "corpus" / "train.1").is_dir()
    pipeline.preprocess(toy(folder), run_dir=folder / "run")
    assert not (folder / "run" / "corpus" / "train.1").exists()


def test_without_valid_and_test_sets(folder: Path) -> None:
    report, _ = run(folder, "corpus.valid=null", "corpus.test={}")
    assert report.content["train"]["best_update"] is None
    assert "test" not in report.content or not report.content["test"]
    with pytest.raises(RecipeError, match=r"corpus.test: names no test set; there is nothing to score"):
        pipeline.evaluate_run(folder / "run")


def test_time_that_runs_out_is_no_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def two_hours(run: Run, tokenizers: TokenizerPair) -> Stores:
        object.__setattr__(run, "called", Stopwatch(7200.0))
        return make_corpus(run, tokenizers)

    with monkeypatch.context() as slow:
        slow.setattr(stages, "make_corpus", two_hours)
        report = pipeline.train(toy(folder, "training.max_hours=1"), run_dir=folder / "run")
    assert report.lines == ["not finished: 1 of 4 updates; the same command goes on from there"]
    with pytest.raises(MissingInputError, match="this run has no model yet"):
        pipeline.evaluate_run(folder / "run")
    report = pipeline.train(toy(folder), run_dir=folder / "run")
    assert report.content["train"]["updates"] == 4


def test_inputs_are_looked_at_before_any_work(folder: Path) -> None:
    (folder / "test.de").unlink()
    (folder / "valid.en").unlink()
    with pytest.raises(MissingInputError) as missing:
        run(folder)
    assert str(missing.value) == f"{folder}/test.de: no such file\n{folder}/valid.en: no such file"
    (folder / "test.de").mkdir()
    with pytest.raises(MissingInputError, match=r"test\.de: a folder, where"):
        run(folder)
    (folder / "test.de").rmdir()
    write_pair(folder, "test", ["the dog"])
    write_pair(folder, "valid", ["the dog"])
    (folder / "train.de").write_text("Hund\n")
    (folder / "test.en").write_text("the\ndog\n")
    with pytest.raises(DataError) as unequal:
        run(folder)
    assert str(unequal.value).count("line has no partner") == 2
    assert not (folder / "run").exists()


def test_a_run_folder_belongs_to_one(folder: Path) -> None:
    with RunLock(folder / "run"), pytest.raises(BusyError, match=r"process .* is working in this folder"):
        run(folder)


def test_evaluating_what_is_no_run(folder: Path) -> None:
    with pytest.raises(MissingInputError, match=r"not a run folder; it has no recipe"):
        pipeline.evaluate_run(folder)


@pytest.mark.parametrize("kind", MODELS)
def test_a_dry_run_needs_no_corpus(tmp_path: Path, kind: str) -> None:
    (tmp_path / "toy.yaml").write_text(RECIPE)
    text = pipeline.dry_run(toy(tmp_path, kind=kind))
    lines = text.split("\n")
    assert lines[0].startswith(f"toy: {kind}, ")
    assert lines[1].startswith("memory of training: about ")
    assert lines[2].startswith("time of training: about ")
    assert not re.search(r"\b1 \w+s of", lines[2])
    assert not (tmp_path / "runs").exists()
