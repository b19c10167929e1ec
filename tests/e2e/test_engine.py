"""`mtkit translate --engine`: CTranslate2 serves what it can, from an export that is made once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from mtkit.cli import entry
from mtkit.export import engine
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.length_penalty import Average
from mtkit.translate.engines.ctranslate2 import _CTranslate2Search
from tests.e2e.conftest import sentences

pytest.importorskip("ctranslate2")
CONFIG = TransformerConfig(d_model=16, d_ff=24, num_heads=4, encoder_layers=2, decoder_layers=2)
OPTIONS = ["--compute-type", "float32", "--beam-size", "1"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "input.txt"
    path.write_text("".join(f"{line}\n" for line in sentences(12)))
    return path


@pytest.fixture
def translate(text: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """Runs the command on the text; returns its stdout and stderr."""

    def run(model: Path, *options: str, exit_code: int = 0) -> tuple[str, str]:
        capfd.readouterr()
        assert entry.execute(["translate", str(model), str(text), *OPTIONS, *options]) == exit_code
        return tuple(capfd.readouterr())

    return run


def exports(model: Path) -> list[Path]:
    return sorted(model.parent.glob(".*.ctranslate2-*"))


def test_the_export_is_made_once_and_translates_equally(toy_model, translate) -> None:
    model = toy_model(CONFIG)
    ours, _ = translate(model)
    theirs, note = translate(model, "--engine", "ctranslate2")
    (folder,) = exports(model)
    assert note.splitlines()[0] == f"engine: CTranslate2, with {folder} (exported)"
    assert theirs == ours
    assert len(ours.splitlines()) == 12
    written = (folder / "model.bin").stat().st_mtime_ns
    again, note = translate(model, "--engine", "auto")
    assert again == ours
    assert note.splitlines()[0] == f"engine: CTranslate2, with {folder}"
    assert (folder / "model.bin").stat().st_mtime_ns == written


def test_a_changed_model_or_a_damaged_export_is_exported_again(toy_model, translate) -> None:
    model = toy_model(CONFIG)
    ours, _ = translate(model)
    former, _ = engine.cached_export(model)
    with (former / "model.bin").open("r+b") as file:
        file.seek(200)
        file.write(b"damage")
    theirs, note = translate(model, "--engine", "ctranslate2")
    assert theirs == ours
    assert "(exported)" in note
    assert toy_model(TransformerConfig(d_model=24, d_ff=24, encoder_layers=1, decoder_layers=1)) == model
    translate(model, "--engine", "ctranslate2")
    (only,) = exports(model)
    assert only != former


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--no-rewrite"], "--no-rewrite needs the engine torch"),
        (["--set", "search.repetition_penalty=1.5"], "search.repetition_penalty: CTranslate2 has no option"),
    ],
)
def test_auto_says_why_it_stays_with_torch(toy_model, translate, options, reason) -> None:
    model = toy_model(CONFIG)
    ours, _ = translate(model, *options)
    theirs, note = translate(model, "--engine", "auto", *options)
    assert theirs == ours
    assert note.startswith("engine: torch, since CTranslate2 cannot serve this: ")
    assert reason in note
    assert exports(model) == []


def test_a_model_that_ctranslate2_lacks(toy_model, translate) -> None:
    model = toy_model(Seq2SeqRNNConfig())
    assert "engine: torch, since" in translate(model, "--engine", "auto")[1]
    translate(model, "--engine", "ctranslate2", exit_code=2)


def test_a_damaged_model_is_named_and_not_served(toy_model, translate) -> None:
    model = toy_model(CONFIG)
    with (model / "model.safetensors").open("r+b") as file:
        file.seek(-4, 2)
        file.write(b"\x7f\x7f\x7f\x7f")
    _, error = translate(model, "--engine", "auto", exit_code=65)
    assert "model.safetensors" in error
    assert "engine:" not in error
    assert exports(model) == []


def test_without_the_extra(toy_model, translate, monkeypatch) -> None:
    monkeypatch.setattr(engine.importlib.util, "find_spec", lambda name: None)
    model = toy_model(CONFIG)
    assert "mtkit[export]" in translate(model, "--engine", "auto")[1]
    translate(model, "--engine", "ctranslate2", exit_code=69)


def test_a_read_only_place_uses_the_users_cache(toy_model, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = toy_model(CONFIG)
    monkeypatch.setattr(engine.os, "access", lambda path, mode: mode != os.W_OK)
    folder, is_new = engine.cached_export(model)
    assert is_new
    assert folder.parent.parent == tmp_path / "cache" / "mtkit"
    assert exports(model) == []


def test_models_with_one_name_keep_their_exports_in_the_users_cache(toy_model, tmp_path: Path, monkeypatch) -> None:
    """The model of every run is in a folder `model`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(engine.os, "access", lambda path, mode: mode != os.W_OK)
    for name, layers in (("a", 1), ("b", 2)):
        model = toy_model(TransformerConfig(d_model=8, d_ff=8, num_heads=2, encoder_layers=layers, decoder_layers=1))
        (tmp_path / name).mkdir()
        model.rename(tmp_path / name / "model")
    folders = [engine.cached_export(tmp_path / name / "model") for name in ("a", "b", "a", "b")]
    assert [is_new for _, is_new in folders] == [True, True, False, False]


def test_a_model_whose_name_begins_as_that_of_an_export_keeps_its_own(toy_model, tmp_path: Path) -> None:
    model = toy_model(CONFIG)
    other = tmp_path / f"{model.name}.ctranslate2-old"
    shutil.copytree(model, other)
    kept, _ = engine.cached_export(other)
    engine.cached_export(model)
    assert kept.is_dir()


def test_a_cache_that_cannot_be_written(toy_model, translate, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(engine.os, "access", lambda path, mode: mode != os.W_OK)
    model = toy_model(CONFIG)
    assert "engine: torch, since CTranslate2 cannot serve this" in translate(model, "--engine", "auto")[1]
    assert str(tmp_path / "cache") in translate(model, "--engine", "ctranslate2", exit_code=74)[1]


def test_auto_leaves_json_lines_to_torch_since_they_may_have_constraints(toy_model, tmp_path: Path, capfd) -> None:
    path = tmp_path / "input.jsonl"
    path.write_text('{"text": "the dog"}\n{"text": "the cat", "prefix": "a"}\n')
    assert entry.execute(["translate", str(toy_model(CONFIG)), str(path), "--jsonl-input", "--engine", "auto"]) == 0
    captured = capfd.readouterr()
    assert "--jsonl-input needs the engine torch" in captured.err
    assert len(captured.out.splitlines()) == 2


def test_auto_stays_on_the_gpu(toy_model, monkeypatch) -> None:
    model = toy_model(CONFIG)
    monkeypatch.setattr(engine, "default_device", lambda: torch.device("cuda"))
    request = engine.TranslationRequest(models=[model])
    assert engine.serving_models("auto", request) == ([model], "engine: torch, since CTranslate2 would run on the CPU")
    assert engine.serving_models("ctranslate2", request)[0] != [model]


def test_an_empty_translation_has_attention_of_no_tokens() -> None:
    """Without it, alignments of the following parts of a line would not count the words of this part."""
    scorer = SimpleNamespace(log_probs=lambda sources, targets: [[-1.0]], target_ids=lambda tokens: [])
    search = _CTranslate2Search(scorer, {}, Average(), with_scores=True, n_best=1, cuttable=True)
    result = SimpleNamespace(hypotheses=[[]], scores=[-1.0], attention=[[]])
    (hypothesis,) = search._hypotheses(["a", "dog"], result, 5)
    assert hypothesis.attention.shape == (0, 2)
