"""--no-rewrite: commands run the model as it is written, with the same results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch import Tensor

import mtkit
from mtkit.cli import entry
from mtkit.layers.attention import CrossAttention
from mtkit.layers.cache import KVCache
from mtkit.layers.projections import Projection
from mtkit.models.transformer.config import TransformerConfig
from mtkit.native.library import Native
from mtkit.translate.model_engine import ModelEngine
from tests.toy.runs import run, write_all

CONFIG = TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=2)


def changed_forward(self: CrossAttention, x: Tensor, pos: Tensor, memory: KVCache) -> tuple[Tensor, Tensor]:
    """An experiment with cross-attention: its output is replaced by zeros."""
    return x * 0, x.new_ones(x.size(0), self.heads.num_heads, x.size(1), memory.length) / memory.length


@pytest.mark.parametrize("beam_size", ["1", "3"])
def test_translate_and_score_agree_with_and_without_rewrites(beam_size, toy_model, text, capsys) -> None:
    model, outputs = str(toy_model(CONFIG)), []
    for switch in ([], ["--no-rewrite"]):
        options = ["--compute-type", "float32", *switch]
        assert entry.execute(["translate", model, str(text), "--jsonl", "--beam-size", beam_size, *options]) == 0
        lines = capsys.readouterr().out
        (text.parent / "translations.jsonl").write_text(lines)
        hyps = ["--hyps", str(text.parent / "translations.jsonl")]
        assert entry.execute(["score", model, "--src", str(text), *hyps, *options]) == 0
        translations = [json.loads(line) for line in lines.split("\n")[:-1]]
        outputs.append((translations, [float(line) for line in capsys.readouterr().out.split("\n")[:-1]]))
    (translations, scores), (plain_translations, plain_scores) = outputs
    assert [each["tokens"] for each in translations] == [each["tokens"] for each in plain_translations]
    assert [each["log_prob"] for each in translations] == pytest.approx(
        [each["log_prob"] for each in plain_translations], abs=1e-3
    )
    assert scores == pytest.approx(plain_scores, abs=1e-3)


@pytest.mark.whole
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_changed_cross_attention_shows_in_translations_without_rewrites(
    beam_size, toy_model, text, monkeypatch
) -> None:
    model, lines = toy_model(CONFIG), text.read_text().split("\n")

    def translate(**options: bool) -> list[str]:
        translator = mtkit.load_model(
            model,
            search_overrides=[f"search.beam_size={beam_size}"],
            compute_type="float32",
            **options,
        )
        return translator.translate_lines(lines)

    expected = translate()
    assert translate(rewrite=False) == expected
    monkeypatch.setattr(CrossAttention, "forward", changed_forward)
    changed = translate(rewrite=False)
    assert changed != expected


def test_a_changed_cross_attention_shows_in_training_and_validation(tmp_path: Path, monkeypatch) -> None:
    write_all(tmp_path)
    engines = []

    class RecordedEngine(ModelEngine):
        """An engine that is remembered."""

        def __init__(self, *args, **keys) -> None:
            super().__init__(*args, **keys)
            engines.append(self)

    monkeypatch.setattr("mtkit.pipeline.validator.ModelEngine", RecordedEngine)
    monkeypatch.setattr(
        "mtkit.pipeline.validator.native", lambda: Native(None, "as after a change of a layer")
    )
    overrides = ["training.validation.beam_size=1", "training.validation.sentences=4"]
    run(tmp_path, *overrides)
    log = (tmp_path / "run" / "log.jsonl").read_text()
    modules = [module for engine in engines for model in engine.models for module in model.modules()]
    assert any(type(module) is CrossAttention for module in modules)
    assert all(type(model.output) is Projection for engine in engines for model in engine.models)

    monkeypatch.setattr(CrossAttention, "forward", changed_forward)
    run(tmp_path, *overrides, fresh=True)
    changed = (tmp_path / "run" / "log.jsonl").read_text()
    for event, key in (("train", "loss"), ("validation", "nll")):
        values = [
            [entry[key] for entry in map(json.loads, each.split("\n")[:-1]) if entry["event"] == event]
            for each in (log, changed)
        ]
        assert values[0]
        assert all(one != other for one, other in zip(*values, strict=True))


@pytest.mark.whole
def test_bench_takes_the_switch(toy_model, text, capsys, monkeypatch) -> None:
    monkeypatch.setattr("mtkit.bench.measure._in_subprocess", lambda work, setting: work())
    results = text.parent / "results.json"
    words = ["bench", str(toy_model(CONFIG)), str(text), "--beam-size", "1", "--json", str(results), "--no-rewrite"]
    assert entry.execute([*words, "--threads", "1"]) == 0
    assert [row["rewrite"] for row in json.loads(results.read_text())] == [False]
