"""Choice of the engine: the native backend, unless the layers of this installation compute something else."""

from __future__ import annotations

import pytest

from mtkit.cli import entry
from mtkit.layers.softmax import DotProductAttention
from mtkit.model_folder.folder import read_stored_model
from mtkit.models.transformer.config import TransformerConfig
from mtkit.native import library
from mtkit.native.library import Native, native
from mtkit.search.beam import BeamSearch
from mtkit.translate.engine import NativeEngine
from mtkit.translate.load import load_engine
from mtkit.translate.model_engine import ModelEngine

CONFIG = TransformerConfig(d_model=16, d_ff=32, num_heads=2, encoder_layers=1, decoder_layers=2)


@pytest.fixture
def engine(toy_model):
    if native().functions is None:
        pytest.skip("there is no native library: " + native().reason)
    folder = toy_model(CONFIG)
    return lambda: load_engine([read_stored_model(folder)], compute_type="float32", device="cpu")


def test_a_transformer_runs_in_the_native_backend(engine) -> None:
    assert isinstance(engine(), NativeEngine)


@pytest.fixture
def edited_layers(monkeypatch):
    """A checkout whose layers are not those that the library was compiled beside."""
    monkeypatch.setitem(vars(native()), "matches_layers", False)  # a cached property


def test_edited_layers_that_compute_the_same_keep_the_native_backend(engine, edited_layers) -> None:
    assert isinstance(engine(), NativeEngine)


def test_a_changed_attention_runs_in_the_reference_implementation(engine, edited_layers, monkeypatch) -> None:
    written = DotProductAttention.forward
    monkeypatch.setattr(DotProductAttention, "forward", lambda self, q, *rest: written(self, 1.01 * q, *rest))
    assert isinstance(engine(), ModelEngine)


def test_edited_searches_run_as_written_which_is_said(toy_model, text, capsys, monkeypatch) -> None:
    if native().functions is None:
        pytest.skip("there is no native library: " + native().reason)
    monkeypatch.setitem(vars(native()), "matches_searches", False)
    written = BeamSearch.__call__
    calls = []
    monkeypatch.setattr(BeamSearch, "__call__", lambda self, *rest: calls.append(1) or written(self, *rest))
    assert entry.execute(["translate", str(toy_model(CONFIG)), str(text)]) == 0
    assert calls
    assert "the searches of this checkout were edited and run as written" in capsys.readouterr().err


@pytest.mark.parametrize(("choice", "count"), [("", 1), ("0", 0)])
def test_a_missing_library_is_said_once_unless_it_was_turned_off(
    choice, count, toy_model, text, capsys, monkeypatch
) -> None:
    monkeypatch.setenv(library.VARIABLE, choice)
    monkeypatch.setattr(library, "native", lambda: Native(None, "no library; compile it"))
    assert entry.execute(["translate", str(toy_model(CONFIG)), str(text)]) == 0
    assert capsys.readouterr().err.count("slower than it could be: no library; compile it") == count
