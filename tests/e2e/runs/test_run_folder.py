"""All commands on one run folder, with two updates of a tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.evaluation.config import MetricInfo

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
    toy: {src: valid.en, tgt: valid.de}
tokenizer: {vocab_size: 145}
model: {kind: transformer, d_model: 8, d_ff: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1}
training: {max_updates: 2, validate_every: 1, checkpoint_every: 1, precision: float32, batch_tokens: auto}
search: {beam_size: 2, max_length: {factor: 0.0, offset: 5}}
"""
SRC = [f"the dog number {i} sees a cat" for i in range(40)]
TGT = [f"der Hund Nummer {i} sieht eine Katze" for i in range(40)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus and a recipe for it."""
    folder = tmp_path_factory.mktemp("toy")
    for name, lines in {"train.en": SRC, "train.de": TGT, "valid.en": SRC[:5], "valid.de": TGT[:5]}.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    (folder / "toy.yaml").write_text(RECIPE)
    return folder


@pytest.fixture
def run(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run a command line in the folder; return exit code, stdout and stderr."""
    monkeypatch.chdir(folder)

    def execute(*words: str) -> tuple[int, str, str]:
        code = entry.execute(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return execute


def test_run_and_the_commands_that_use_its_folder(
    run: Callable[..., tuple[int, str, str]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run("run", "toy.yaml")
    assert (code, "Traceback" in err) == (0, False)
    assert "BLEU" in out
    assert "|version:" in out  # the signature
    assert out.count("  hyp ") == 5
    assert "tokenizer: " in err
    assert "update 2 validation" in err
    assert "batch_tokens: 8,192: the largest batch that fits" in err
    toy = folder / "runs" / "toy"
    assert "batch_tokens: 8192\n" in (toy / "recipe.yaml").read_text()
    assert {path.name for path in toy.iterdir()} >= {"recipe.yaml", "tokenizer", "corpus", "model", "log.jsonl"}
    scores = json.loads((toy / "report.json").read_text())["test"]["toy"]

    code, again, err = run("run", "toy.yaml")
    assert code == 0
    assert "tokenizer: unchanged, kept" in err
    assert "already finished" in again

    assert run("evaluate", "--run", "runs/toy", "--json", "scores.json")[0] == 0
    assert json.loads((folder / "scores.json").read_text())["test"]["toy"]["bleu"] == scores["bleu"]

    with monkeypatch.context() as without:
        without.setattr(MetricInfo, "is_installed", lambda info: not info.package)
        assert run("evaluate", "--run", "runs/toy")[0] == 0
        code, _, err = run("evaluate", "--run", "runs/toy", "--moses")
        assert (code, "sacremoses" in err) == (69, True)
        code, _, err = run("run", "toy.yaml", "evaluation.metrics=[moses]", "--run-dir", "runs/moses")
        assert (code, "sacremoses" in err, (folder / "runs/moses").exists()) == (69, True, False)  # before training

    assert run("run", "toy.yaml", "search.max_length.offset=4")[0] == 0
    search = json.loads((toy / "model/config.json").read_text())["search"]  # the default is the scored search
    assert search["max_length"] == {"factor": 0.0, "offset": 4, "max": None}

    code, _, err = run("train", "toy.yaml", "training.label_smoothing=0.3")
    assert code == 78
    assert "training.label_smoothing" in err
    assert "--fresh" in err

    checkpoints = [str(path) for path in sorted((toy / "checkpoints").iterdir())]
    assert run("average", *checkpoints, "-o", "averaged") == (0, "averaged\n", "")
    assert run("average", "averaged", "runs/toy", "-o", "averaged")[0] == 2  # one of the models
    assert run("average", "averaged", "runs/toy", "-o", "mean")[0] == 0
    assert run("average", *checkpoints, "-o", "mean")[0] == 0  # replaces it
    assert run("average", "averaged", "-o", ".")[0] == 2
    assert (folder / "toy.yaml").is_file()
    code, out, _ = run("translate", "mean", "valid.en")
    assert (code, out.count("\n")) == (0, 5)

    pytest.importorskip("matplotlib")
    assert run("plot", "runs/toy", "-o", "curves.png") == (0, "curves.png\n", "")
    assert (folder / "curves.png").read_bytes()[:4] == b"\x89PNG"
