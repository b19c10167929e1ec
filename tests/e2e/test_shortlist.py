"""--shortlist: preprocess learns a lexicon, the model folder contains it, translate uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtkit.cli import entry

RECIPE = """
name: toy
defaults: fixed
corpus:
  src_lang: en
  tgt_lang: de
  train: [{src: train.en, tgt: train.de}]
tokenizer: {model_type: char, vocab_size: 122}
model: {kind: rnn, d_model: 8, num_layers: 1}
training: {max_updates: 2, batch_tokens: 300, validate_every: 2, checkpoint_every: 2}
"""


def test_from_preprocess_to_translate(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = text.parent
    for lang in ("en", "de"):
        (folder / f"train.{lang}").write_text(text.read_text().replace("\n\n", "\n") * 4 + "the dog\n")
    recipe, run = folder / "toy.yaml", folder / "run"
    recipe.write_text(RECIPE)
    words = [str(recipe), "--run-dir", str(run)]
    assert entry.execute(["preprocess", *words]) == 0
    lexicon = (run / "corpus" / "lexicon.safetensors").read_bytes()
    assert "lexicon" in capsys.readouterr().err
    assert entry.execute(["train", *words]) == 0
    assert "lexicon: unchanged, kept" in " ".join(capsys.readouterr().err.split())
    assert (run / "model" / "lexicon.safetensors").read_bytes() == lexicon
    assert entry.execute(["average", str(run), "-o", str(folder / "mean")]) == 0
    assert (folder / "mean" / "lexicon.safetensors").read_bytes() == lexicon
    capsys.readouterr()
    for options in ([], ["--jsonl"], ["--beam-size", "1"]):
        assert entry.execute(["translate", str(run), str(text), "--shortlist", *options]) == 0
        output = capsys.readouterr().out.split("\n")[:-1]
        assert len(output) == 12
        assert "--jsonl" not in options or all(json.loads(line)["log_prob"] <= 0 for line in output)
    _refuses_to_resume_with_other_batches(run, text, capsys)
    (run / "model" / "lexicon.safetensors").unlink()
    assert entry.execute(["translate", str(run), str(text), "--shortlist"]) == 66
    assert "the model has no lexicon" in capsys.readouterr().err


def _refuses_to_resume_with_other_batches(run: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a shortlist a line depends on its batch; without one, other batches are resumed."""
    whole = text.read_bytes()
    output = text.with_name("out.txt")
    command = ["translate", str(run), str(text), "-o", str(output), "--workers", "1", "--batch-tokens", "100"]
    for shortlist in ([], ["--shortlist"]):
        text.write_bytes(whole + b"caf\xe9\n")
        assert entry.execute([*command, *shortlist]) == 65
        text.write_bytes(whole)
        capsys.readouterr()
        for other, message in (
            (["--batch-tokens", "200"], "was written with batch_tokens 100, not 200; start over without --resume"),
            (["--workers", "2"], "was written with workers 1, not 2; start over without --resume"),
            (["--flush-every", "2"], "was written with flush_every null, not 2; start over without --resume"),
        ):
            if shortlist:
                assert entry.execute([*command, *shortlist, "--resume", *other]) == 65
                assert f"out.txt.part: {message}" in capsys.readouterr().err
        same = [] if shortlist else ["--batch-tokens", "200"]
        assert entry.execute([*command, *shortlist, "--resume", *same]) == 0
        output.unlink()
