"""Toy corpus and recipe for whole runs, and a display that records what became of each stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtkit.pipeline import stages
from mtkit.recipe.recipe import load_recipe
from mtkit.recipe.sections import Recipe

WORDS = {"the": "der", "dog": "Hund", "cat": "Kater", "sees": "sieht", "big": "große", "small": "kleine", "and": "und"}
RECIPE = """\
name: toy
defaults: fixed
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
search: {beam_size: 2, max_length: {factor: 1.0, offset: 4}}
"""
MODELS = {
    "transformer": "{kind: transformer, d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1}",
    "rnn": "{kind: rnn, d_model: 8, d_embed: 8, num_layers: 1}",
    "attention_rnn": "{kind: attention_rnn, d_model: 8, d_embed: 8, d_attention: 8}",
}


def sentences(count: int, seed: int) -> list[str]:
    """Source sentences of 2 to 5 words."""
    words = list(WORDS)
    return [" ".join(words[(seed + 3 * n + n * k) % len(words)] for k in range(2 + n % 4)) for n in range(count)]


def write_pair(folder: Path, name: str, lines: list[str]) -> None:
    """Write source lines and their word-by-word translations to NAME.en and NAME.de."""
    (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines))
    tgt = [" ".join(WORDS[word] for word in line.split()) for line in lines]
    (folder / f"{name}.de").write_text("".join(f"{line}\n" for line in tgt))


def write_all(folder: Path) -> None:
    """Write training, validation and test set, and the recipe toy.yaml."""
    for name, count, seed in (("train", 60, 0), ("valid", 6, 1), ("test", 7, 2)):
        write_pair(folder, name, sentences(count, seed))
    (folder / "toy.yaml").write_text(RECIPE)


class RecordingDisplay:
    """A display that records events.

    Attributes:
        results: last result of each stage.
        names: names of all events in order.
        damaged: messages about damaged files.
    """

    def __init__(self) -> None:
        self.results: dict[str, str] = {}
        self.names: list[str] = []
        self.damaged: list[str] = []

    def event(self, name: str, update: int | None, fields: Mapping[str, Any]) -> None:
        """Record an event."""
        self.names.append(name)
        if name == "damaged":
            self.damaged.append(fields["result"])
        elif "result" in fields:
            self.results[name] = fields["result"]


def toy(folder: Path, *overrides: str, kind: str = "transformer") -> Recipe:
    """Load toy.yaml with a model of one of the kinds in MODELS."""
    return load_recipe(str(folder / "toy.yaml"), [f"model={MODELS[kind]}", *overrides])


def run(
    folder: Path, *overrides: str, kind: str = "transformer", fresh: bool = False
) -> tuple[stages.Report, RecordingDisplay]:
    """Run all stages in `folder`/run."""
    display = RecordingDisplay()
    recipe = toy(folder, *overrides, kind=kind)
    return stages.run(recipe, run_dir=folder / "run", fresh=fresh, display=display), display
