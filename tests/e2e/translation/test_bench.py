"""`mtkit bench`: a row with plausible measurements for each setting."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mtkit.bench import grid, measure
from mtkit.bench.grid import BenchGrid, BenchResult, BenchSetting, bench_table, unsupported_settings
from mtkit.bench.machine import inspect_machine
from mtkit.cli import entry
from mtkit.evaluation.score import score
from mtkit.model_folder.folder import read_model, write_model
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.training.weights import weights
from mtkit.translate.load import load_translator

Make = Callable[[Any], Path]
SMALL = TransformerConfig(d_model=8, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure in the test process: a new process takes seconds to start."""
    monkeypatch.setattr(measure, "_in_subprocess", lambda work, setting: work())


def test_the_grid_is_every_combination() -> None:
    grid = BenchGrid(compute_types=["float32", "bf16"], beam_sizes=[1, 5], workers=[1, 2])
    assert len({*grid.settings()}) == len(list(grid.settings())) == 8
    with_peer = BenchGrid(beam_sizes=[1, 5], peer="ctranslate2").settings()
    assert [(each.engine, each.beam_size) for each in with_peer] == [
        ("mtkit", 1),
        ("ctranslate2", 1),
        ("mtkit", 5),
        ("ctranslate2", 5),
    ]
    assert BenchSetting(threads=8, workers=3).threads_per_worker == 2
    assert BenchSetting(threads=1, workers=3).threads_per_worker == 1


def test_the_table() -> None:
    rows = [
        BenchResult(
            setting=BenchSetting(batch_tokens=1000, threads=2), actual_compute_type="bf16", bleu=31.5, latency_p50=12.34
        ),
        BenchResult(setting=BenchSetting(engine="ctranslate2"), error="no bf16"),
    ]
    table = bench_table(rows)
    assert len(table.rows) == 2
    columns = {heading: [row[heading] for row in table.records()] for heading in table.headings}
    assert columns["BLEU"] == ["31.50", "–"]
    assert columns["p50 ms"] == ["12.3", "–"]
    assert columns["batch"] == ["1,000", "default"]
    assert unsupported_settings(rows) == ["ctranslate2: no bf16"]


@pytest.mark.usefixtures("in_this_process")
def test_a_row_for_each_setting(toy_model: Make, text: Path, capsys) -> None:
    pytest.importorskip("ctranslate2")
    figures = text.parent / "figures.json"
    words = ["bench", str(toy_model(SMALL)), str(text), "--ref", str(text), "--json", str(figures)]
    options = ["--compute-type", "float32", "--compute-type", "bf16", "--beam-size", "1"]
    assert entry.execute([*words, *options, "--peer", "ctranslate2", "--batch-tokens", "200", "--threads", "1"]) == 0
    captured = capsys.readouterr()
    rows = json.loads(figures.read_text())
    assert captured.err.count("measured") == len(rows) == 4
    assert [(row["engine"], row["compute_type"]) for row in rows] == [
        ("mtkit", "float32"),
        ("ctranslate2", "float32"),
        ("mtkit", "bf16"),
        ("ctranslate2", "bf16"),
    ]
    for row in (row for row in rows if row["error"] is None):
        assert row["sentences_per_second"] == pytest.approx(12 / row["seconds"])
        assert row["tokens_per_second"] > 0
        assert 0 < row["latency_p50"] <= row["latency_p95"]
        assert row["memory"] > 10
        assert 0 <= row["bleu"] <= 100
    assert rows[0]["bleu"] == rows[1]["bleu"]
    assert "lines/s" in captured.out


def test_the_report_of_the_suite() -> None:
    def row(engine, beam_size, compute_type, rate, error=None):
        setting = BenchSetting(engine=engine, beam_size=beam_size, compute_type=compute_type, threads=1)
        figures = {"sentences_per_second": rate, "latency_p50": 10 / max(rate, 1.0), "memory": 2 * rate, "error": error}
        return BenchResult(setting=setting, actual_compute_type=compute_type, **figures)

    results = [
        row("mtkit", 1, "float32", 30.0),
        row("ctranslate2", 1, "float32", 20.0),
        row("mtkit", 1, "int8", 36.0),
        row("ctranslate2", 1, "int8", 40.0),
        row("mtkit", 1, "bf16", 50.0),
        row("ctranslate2", 1, "bf16", 0.0, error="no bf16"),
    ]
    translation, training = grid.suite_tables(results, {"float32": 1234.5})
    rows = translation.rows
    assert [(cells[1], cells[3], cells[8]) for cells in rows] == [
        ("float32", "mtkit", "1.50"),
        ("float32", "ctranslate2", ""),
        ("int8", "mtkit", "0.90"),
        ("int8", "ctranslate2", ""),
        ("bf16", "mtkit", ""),
        ("best: bf16", "mtkit", "1.25"),  # 50 beside the peer's 40 in int8
    ]
    assert rows[0][4:] == ["30", "0.3", "60", "", "1.50", "0.67", "1.50"]
    assert training.rows == [["float32", "1,234"]]
    assert next(grid.suite_notes(inspect_machine(measure=False))).startswith("Machine: ")


@pytest.mark.whole
@pytest.mark.usefixtures("in_this_process")
def test_the_suite_of_a_model_folder(toy_model: Make, text: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(grid.importlib.util, "find_spec", lambda name: None)  # without a peer
    monkeypatch.setattr(grid, "has_bf16", lambda device: False)
    model = toy_model(SMALL)
    assert entry.execute(["bench", str(model), str(text), "--suite", "--lines", "2", "--format", "markdown"]) == 0
    out = capsys.readouterr().out
    assert "\n- Machine: " in out
    assert out.count("| greedy | float32 |") == out.count("| beam 5 | int8 |") == min(2, inspect_machine().cores)
    assert "tokens/s |" not in out  # training: only of a run
    assert entry.execute(["bench", str(model), str(text), "--suite", "--workers", "2"]) == 2
    assert "--suite decides --workers" in capsys.readouterr().err


@pytest.mark.usefixtures("in_this_process")
def test_bleu_uses_the_tokenizer_of_the_target_language(toy_model: Make) -> None:
    folder = toy_model(SMALL)
    loaded = read_model(folder)
    description = replace(loaded.metadata, tgt_lang="ja")
    write_model(folder, weights(loaded.model), description, loaded.tokenizers, card="a toy\n")
    hyps, ref = load_translator(folder).translate_lines(["the dog"]), ["the dogs see a cat"]
    (row,) = measure.bench(folder, ["the dog"], BenchGrid(beam_sizes=[2]), ref=ref)
    found = [score(hyps, [ref], ["bleu"], tgt_lang=lang).bleu for lang in ("ja", "de")]
    assert [each is not None and each.value == row.bleu for each in found] == [True, False]


@pytest.mark.slow
def test_each_setting_has_its_own_process(toy_model: Make, text: Path, capsys) -> None:
    command = ["bench", str(toy_model(SMALL)), str(text), "--beam-size", "1", "--workers", "1", "--workers", "2"]
    assert entry.execute(command) == 0
    assert capsys.readouterr().err.count("measured") == 2


@pytest.mark.parametrize(
    ("content", "words", "code", "said"),
    [
        ("", [], 65, "has no lines; nothing to translate"),
        ("a\n", ["--ref", "REF"], 65, "line has no partner"),
        ("a\n", ["--peer", "ctranslate2"], 2, "model.kind: rnn: CTranslate2 export supports only kind: transformer"),
        ("a\n", ["--json", "/nowhere/x", "--beam-size", "1"], 74, "/nowhere/x: cannot be written"),
    ],
)
@pytest.mark.usefixtures("in_this_process")
def test_faults(content: str, words: list[str], code: int, said: str, toy_model: Make, text: Path, capsys) -> None:
    source = text.with_name("source")
    source.write_text(content)
    options = [str(text) if word == "REF" else word for word in words]
    assert entry.execute(["bench", str(toy_model(Seq2SeqRNNConfig(d_model=8))), str(source), *options]) == code
    assert said in capsys.readouterr().err
