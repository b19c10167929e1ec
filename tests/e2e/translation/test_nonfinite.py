"""Models that compute NaN or infinity: exit code 65 and the line's number, never a wrong line."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mtkit.cli import entry
from mtkit.io.records import read_record, write_record
from mtkit.models.rnn.config import AttentionRNNConfig
from mtkit.models.transformer.config import TransformerConfig

TRANSFORMER = TransformerConfig(
    d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1, tied_embeddings="target"
)
RNN = AttentionRNNConfig(d_model=16, d_embed=12, d_attention=8, tied_embeddings="target")
LINES = ["the dog sees a cat", "", "a man", "a red woman and a dog", "the house ,", "a small woman in the red house"]
OUTPUT = "tgt_embedding.table.weight"  # tied with the output projection
SCORE = re.compile(r"-?\d+\.\d+(?:e-\d+)?")
BAD_LINE = 4  # the first one with the letter w, and not the longest
SEARCHES = [
    ["--beam-size", "1"],
    ["--beam-size", "1", "--no-rewrite"],
    ["--beam-size", "1", "--jsonl"],
    ["--beam-size", "1", "--compute-type", "int8"],
    ["--beam-size", "1", "--compute-type", "bf16"],
    ["--beam-size", "1", "--set", "search.no_repeat_ngram=3"],
    ["--beam-size", "3"],
    ["--beam-size", "3", "--compute-type", "bf16"],
    ["--beam-size", "4", "--set", "search.method.kind=diverse", "--set", "search.method.groups=2"],
    ["--set", "search.method.kind=sampling"],
    ["--set", "search.method={kind: sampling, num_samples: 3}", "--set", "search.rerank={kind: mbr}"],
    ["--workers", "2", "--beam-size", "1"],
]


def change_weights(model: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    """Change the weights of a model, and their hash."""
    path, config = model / "model.safetensors", model / "config.json"
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    change(tensors)
    save_file(tensors, path)
    content = read_record(config, remedy="")
    content["files"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    write_record(config, content)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


@pytest.fixture(params=[TRANSFORMER, RNN], ids=lambda config: config.kind)
def overflowing(request, toy_model, tokenizers) -> Path:
    """A model with finite weights that computes NaN for sources with the letter w."""
    model = toy_model(request.param)
    (w,) = (i for i in tokenizers.src.encode(["w"])[0] if tokenizers.src.ids_to_tokens([i]) == ["w"])
    change_weights(model, lambda tensors: tensors["src_embedding.table.weight"][w].fill_(3e38))
    return model


@pytest.mark.whole
@pytest.mark.parametrize("search", SEARCHES, ids=" ".join)
def test_the_line_is_named_and_the_lines_before_it_stay(overflowing, search, text, tmp_path, capsys) -> None:
    output = tmp_path / "out.txt"
    assert entry.execute(["translate", str(overflowing), str(text), "-o", str(output), *search]) == 65
    error = capsys.readouterr().err
    sentence, note = error.splitlines()
    assert f"{overflowing}: computes NaN or infinity for line {BAD_LINE}" in sentence
    assert f"{output}.part keeps {BAD_LINE - 1} finished lines" in note
    assert not output.exists()
    part = Path(f"{output}.part").read_text()
    (tmp_path / "good.txt").write_text("".join(f"{line}\n" for line in LINES[: BAD_LINE - 1]))
    assert entry.execute(["translate", str(overflowing), str(tmp_path / "good.txt"), *search]) == 0
    alone = capsys.readouterr().out
    assert SCORE.sub("", alone) == SCORE.sub("", part)
    scores = [[float(score) for score in SCORE.findall(each)] for each in (alone, part)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)  # of batches of different sizes
    assert part.count("\n") == BAD_LINE - 1


@pytest.mark.whole
def test_one_model_of_an_ensemble(overflowing, text, toy_model, capsys) -> None:
    good = toy_model(RNN if overflowing.name == "model-transformer" else TRANSFORMER)
    for beam in ("1", "3"):
        words = ["translate", str(good), str(text), "--ensemble", str(overflowing), "--beam-size", beam]
        assert entry.execute(words) == 65
        assert f"{good}, {overflowing}: computes NaN or infinity for line {BAD_LINE}" in capsys.readouterr().err


def test_score(overflowing, text, capsys) -> None:
    assert entry.execute(["score", str(overflowing), "--src", str(text), "--ref", str(text)]) == 65
    captured = capsys.readouterr()
    assert captured.out.count("\n") == BAD_LINE - 1
    assert f"{overflowing}: computes NaN or infinity for line {BAD_LINE}" in captured.err


def test_perplexity_has_no_overflow(toy_model, text, capsys) -> None:
    model = toy_model(TRANSFORMER)
    change_weights(model, lambda tensors: tensors[OUTPUT].mul_(1e4))
    assert entry.execute(["score", str(model), "--src", str(text), "--ref", str(text), "--jsonl"]) == 0
    assert all(json.loads(line)["perplexity"] > 0 for line in capsys.readouterr().out.split("\n")[:-1])


def set_last(value: float) -> Callable[[dict[str, torch.Tensor]], None]:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors[OUTPUT][-1, -1] = value

    return change


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_refused_when_a_model_is_read(value, toy_model, text, tmp_path, capsys) -> None:
    model = toy_model(TRANSFORMER)
    change_weights(model, set_last(value))
    for words in (
        ["translate", str(model), str(text), "--beam-size", "1"],
        ["score", str(model), "--src", str(text), "--ref", str(text)],
        ["average", str(model), "-o", str(tmp_path / "average")],
        ["export", str(model), "--to", "ctranslate2", "-o", str(tmp_path / "exported")],
    ):
        assert entry.execute(words) == 65, words
        error = capsys.readouterr().err
        assert f"{model / 'model.safetensors'}: the tensor {OUTPUT} contains NaN or infinity" in error
    assert not (tmp_path / "average").exists()
    assert not (tmp_path / "exported").exists()
