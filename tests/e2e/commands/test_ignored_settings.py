"""A setting that a command cannot follow is refused (2) or said on stderr, never dropped silently."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mtkit.cli import entry
from mtkit.io.records import read_record, write_record
from mtkit.models.transformer.config import TransformerConfig

CONFIG = TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=1)


@pytest.fixture
def model(toy_model) -> Path:
    return toy_model(CONFIG)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "search.n_best=2"], "search.n_best: 2 has no effect here"),
        (["--set", "n_best=2", "--workers", "2"], "search.n_best: 2 has no effect here"),
        (["--beam-size", "3", "--set", "search.method.kind=sampling"], "search.beam_size has no effect with method"),
        (["--set", "search.patience=2", "--beam-size", "1"], "search.patience has no effect with beam_size 1"),
        (
            ["--set", "search.method={kind: sampling, num_samples: 2}", "--set", "search.coverage_penalty=0.2"],
            "search.coverage_penalty has no effect with method.kind sampling",
        ),
    ],
)
def test_refused(model, text, options, message, capsys) -> None:
    assert entry.execute(["translate", str(model), str(text), *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_n_best_with_jsonl_and_patience_with_coverage_act(model, text, capsys) -> None:
    assert entry.execute(["translate", str(model), str(text), "--jsonl", "--set", "search.n_best=2"]) == 0
    first = json.loads(capsys.readouterr().out.partition("\n")[0])
    assert len(first["nbest"]) == 2
    settings = ["--set", "search.patience=2", "--set", "search.coverage_penalty=0.2", "--beam-size", "1"]
    assert entry.execute(["translate", str(model), str(text), *settings]) == 0


def test_the_n_best_of_the_models_own_recipe_is_said(model, text, capsys) -> None:
    assert entry.execute(["translate", str(model), str(text)]) == 0
    expected = capsys.readouterr()
    assert "search.n_best" not in expected.err
    config = model / "config.json"
    content = read_record(config, remedy="")
    content["search"]["n_best"] = 2
    write_record(config, content)
    assert entry.execute(["translate", str(model), str(text)]) == 0
    captured = capsys.readouterr()
    assert captured.out == expected.out
    note, _, rest = captured.err.partition("\n")
    assert note.startswith("search.n_best: 2 has no effect here")
    assert rest == expected.err


@pytest.mark.whole
def test_bench_says_which_beam_sizes_have_no_effect(model, text, capsys) -> None:
    config = model / "config.json"
    content = read_record(config, remedy="")
    content["search"]["method"] = {"kind": "sampling"}
    write_record(config, content)
    assert entry.execute(["bench", str(model), str(text), "--beam-size", "2", "--threads", "1"]) == 0
    assert "search.beam_size has no effect with method.kind sampling" in capsys.readouterr().out
