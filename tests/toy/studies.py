"""Toy study without training: a small corpus, and run folders with the files of finished runs."""

from __future__ import annotations

from pathlib import Path

from mtkit.io.records import record_line, write_record
from mtkit.model_folder.config_file import CONFIG, MODEL_CARD, WEIGHTS, write_config
from mtkit.pipeline.reconcile import training_fingerprint
from mtkit.pipeline.run_folder import save_recipe
from mtkit.pipeline.score_test_sets import score_fingerprint
from mtkit.study.load import Study, read_study
from mtkit.study.runs import StudyRun
from mtkit.text.lines import read_lines

RECIPE = """\
name: toy
defaults: fixed
corpus:
  src_lang: en
  tgt_lang: de
  train: [{src: train.en, tgt: train.de}]
  valid: {src: valid.en, tgt: valid.de}
  test:
    toy: {src: test.en, tgt: test.de}
    other: {src: valid.en, tgt: valid.de}
tokenizer: {model_type: word, vocab_size: 112}
model: {kind: transformer, d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1}
training:
  max_updates: 4
  validate_every: 2
  checkpoint_every: 2
  batch_tokens: 128
  precision: float32
  schedule: {kind: constant}
  validation: {sentences: 2}
search: {beam_size: 1, max_length: {factor: 1.0, offset: 4}}
evaluation: {metrics: [bleu]}
"""
STUDY = """\
name: norms
base: toy.yaml
variants:
  pre: {}
  post: {model: {residual: {kind: post_norm}}}
seeds: [1, 2]
"""
WORDS = {"the": "der", "dog": "Hund", "cat": "Kater", "sees": "sieht", "big": "große", "small": "kleine", "and": "und"}


def sentences(count: int, seed: int) -> list[str]:
    words = list(WORDS)
    return [" ".join(words[(seed + 3 * n + n * k) % len(words)] for k in range(2 + n % 9)) for n in range(count)]


def translated(lines: list[str]) -> list[str]:
    return [" ".join(WORDS[word] for word in line.split()) for line in lines]


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def toy_corpus(folder: Path) -> None:
    """Write the texts, toy.yaml and study.yaml."""
    for name, count, seed in (("train", 60, 0), ("valid", 6, 1), ("test", 40, 2)):
        lines = sentences(count, seed)
        write(folder / f"{name}.en", lines)
        write(folder / f"{name}.de", translated(lines))
    (folder / "toy.yaml").write_text(RECIPE)
    (folder / "study.yaml").write_text(STUDY)


def toy_study(folder: Path, *overrides: str) -> Study:
    return read_study(str(folder / "study.yaml"), overrides)


def finish(run: StudyRun, hyps: list[str], *, bleu: float, loss: float, speed: float = 1000.0) -> None:
    """Write the files of a finished run that a study reads."""
    folder = run.folder
    tests = list(run.recipe.corpus.test)
    for path in (folder.model, folder.hyps(run.test).parent):
        path.mkdir(parents=True, exist_ok=True)
    save_recipe(run.recipe, folder.recipe)
    folder.write_version()
    for test in tests:  # each has its own lines, of the same translation
        write(folder.hyps(test), hyps[: sum(1 for _ in read_lines(run.recipe.corpus.test[test].src))])
    train = {"updates": 4, "precision": "float32", "tokens_per_second": speed, "seconds": 2.0, "best_update": 2}
    write_record(folder.report, {"train": train, "test": {test: {"bleu": bleu, "seconds": 4.0} for test in tests}})
    (folder.model / WEIGHTS).write_text(f"weights of {run.label} with loss {loss}")
    (folder.model / MODEL_CARD).write_text("")
    write_config(folder.model / CONFIG, {"training": training_fingerprint(run.recipe.model, run.recipe.training)})
    write_record(folder.fingerprints, {"scores": {test: score_fingerprint(run.recipe, folder, test) for test in tests}})
    events = [
        {"event": "begin", "update": 0, "parameters": 1234},
        {"event": "validation", "update": 2, "nll": loss, "bleu": bleu},
        {"event": "validation", "update": 4, "nll": loss + 1, "bleu": bleu},
        {"event": "train", "update": 4, "seconds": 2.0, "processor_seconds": 1.0},
    ]
    folder.log.write_bytes(b"".join(record_line({"time": 0.0, **event}) for event in events))
