"""Import of T5, an architecture outside BART's family: tensors that are missing, unknown or not named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mtkit.errors import DataError
from mtkit.importers.import_model import Languages, import_model
from mtkit.importers.t5 import T5
from mtkit.model_folder.folder import read_metadata
from tests.toy.foreign_models import make_t5

LANGUAGES = Languages("en", "de")


@pytest.fixture
def t5(tmp_path: Path) -> Path:
    pytest.importorskip("transformers")
    return make_t5(tmp_path / "t5")


def test_missing_and_unknown_tensors_are_named(t5: Path, tmp_path: Path) -> None:
    path = t5 / "model.safetensors"
    state = load_file(path)
    name = "encoder.block.1.layer.1.DenseReluDense.wo.weight"
    save_file({each: tensor for each, tensor in state.items() if each != name}, path)
    with pytest.raises(DataError, match=f"the weights have no {name}"):
        import_model(t5, tmp_path / "out", LANGUAGES)
    save_file({**state, "adapter": torch.zeros(3)}, path)
    with pytest.raises(DataError, match=r"adapter \(and 0 more\): no weight of t5"):
        import_model(t5, tmp_path / "out", LANGUAGES)


def test_an_importer_must_name_every_weight(t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = T5.weights
    monkeypatch.setattr(T5, "weights", lambda self, config: list(original(self, config))[:-1])
    with pytest.raises(ValueError, match=r"t5: .* decoder\.1\.feed_forward_residual\.norm\.weight"):
        import_model(t5, tmp_path / "out", LANGUAGES)


def test_the_task_of_a_direction_is_said(t5: Path, tmp_path: Path) -> None:
    config = (t5 / "config.json").read_text()
    task = '"task_specific_params": {"translation_en_to_de": {"prefix": "translate English to German: "}},'
    (t5 / "config.json").write_text(config.replace("{", "{" + task, 1))
    notes = import_model(t5, tmp_path / "out", LANGUAGES)
    assert "task_specific_params: this direction needs translate --prefix 'translate English to German:'" in notes
    assert read_metadata(tmp_path / "out").model.tied_embeddings == "all"
