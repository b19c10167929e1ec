"""Mistakes in the files of a recipe are noticed before any work, and when a validation set is added."""

from __future__ import annotations

from pathlib import Path

import pytest

from mtkit.cli import entry

DATA = Path(__file__).parents[3] / "data"
VALID = "  valid: {src: valid.en, tgt: valid.de}\n"
RECIPE = f"""\
name: toy
corpus:
  root: .
  src_lang: en
  tgt_lang: de
  train: [{{src: train.en, tgt: train.de}}]
{VALID}tokenizer: {{vocab_size: 150, model_type: char}}
model: {{kind: rnn}}
training: {{max_updates: 2}}
defaults: fixed
"""
SIDES = {"en": "de", "de": "en"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a part of the embedded corpus and a recipe for it."""
    pytest.importorskip("py3langid")
    for side in SIDES:
        copy_lines(f"train.{side}", tmp_path / f"train.{side}", 300)
        copy_lines(f"valid.{side}", tmp_path / f"valid.{side}", 100)
    (tmp_path / "toy.yaml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def copy_lines(name: str, path: Path, count: int) -> None:
    """Copy the first lines of a file of the embedded corpus."""
    lines = (DATA / name).read_text(encoding="utf-8").split("\n")[:count]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_swapped_sides_are_refused_before_the_tokenizer_is_trained(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side, other in SIDES.items():
        copy_lines(f"train.{other}", folder / f"train.{side}", 300)
    assert entry.execute(("preprocess", "toy.yaml")) == 65
    message = capsys.readouterr().err
    assert "train.en looks like de" in message
    assert "tokens from" not in message
    assert not list(folder.glob("runs/toy/tokenizer/*"))
    for side in SIDES:
        copy_lines(f"train.{side}", folder / f"train.{side}", 300)
    assert entry.execute(("preprocess", "toy.yaml")) == 0


def test_an_added_validation_set_is_checked_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "toy.yaml").write_text(RECIPE.replace(VALID, ""))
    assert entry.execute(("preprocess", "toy.yaml")) == 0
    assert "are training text" not in capsys.readouterr().err
    (folder / "toy.yaml").write_text(RECIPE.replace(VALID, VALID.replace("valid.", "train.")))
    assert entry.execute(("preprocess", "toy.yaml")) == 0
    message = capsys.readouterr().err
    assert message.count("are training text") == 1
    assert "corpus.valid: " in message
    assert entry.execute(("preprocess", "toy.yaml")) == 0
    assert "are training text" not in capsys.readouterr().err


def test_a_validation_set_that_is_added_after_the_tokenizer_is_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "toy.yaml").write_text(RECIPE.replace(VALID, ""))
    assert entry.execute(("train-bpe", "--recipe", "toy.yaml")) == 0
    (folder / "toy.yaml").write_text(RECIPE.replace(VALID, VALID.replace("valid.", "train.")))
    capsys.readouterr()
    assert entry.execute(("preprocess", "toy.yaml")) == 0
    assert capsys.readouterr().err.count("are training text") == 1
