"""Adapters that mtkit and the package peft exchange: each reads those of the other, with the same outputs.

They are skipped where peft is not installed: it is in a virtual environment of its own (tests/interop/README.md).
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mtkit.errors import DataError
from mtkit.model_folder.folder import LoadedModel, read_model, read_stored_model
from mtkit.translate.load import load_translator
from mtkit.translate.reference_text import ReferenceText, batches
from tests.toy.runs import run, sentences, write_all

peft = pytest.importorskip("peft", reason="peft is in an environment of its own: tests/interop/README.md")

LAYERS = ["encoder.0.attention.query_key_value", "decoder.0.cross_attention.query", "decoder.0.feed_forward.outer"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("peft")
    write_all(folder)
    run(folder)
    (folder / "run").rename(folder / "base")
    return folder


def states(loaded: LoadedModel, model: torch.nn.Module) -> torch.Tensor:
    (batch,) = batches(loaded, ReferenceText(sentences(8, 4), sentences(8, 5)))
    with torch.no_grad():
        return model.decode_states(batch.source, batch.target)


@pytest.mark.filterwarnings("ignore:Unsupported layer type")  # of peft, about every norm
@pytest.mark.parametrize("kind", ["lora", "norm"])
def test_peft_reads_ours(folder: Path, kind: str) -> None:
    keys = ["training.optimiser={kind: adam, learning_rate: 0.05}", f"training.adapter={{kind: {kind}}}"]
    run(folder, f"training.init_from={folder / 'base'}", *keys)
    (folder / "run").rename(folder / kind)
    loaded = read_model(folder / "base")
    before = states(loaded, loaded.model)
    theirs = peft.PeftModel.from_pretrained(loaded.model, folder / kind / "adapter")
    expected = read_model(folder / kind)
    assert not torch.allclose(before, states(expected, expected.model))
    torch.testing.assert_close(states(loaded, theirs), states(expected, expected.model), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "config",
    [
        {"r": 3, "lora_alpha": 5, "target_modules": LAYERS},
        {"r": 4, "lora_alpha": 5, "target_modules": ["out", "inner"], "use_rslora": True},
        {
            "r": 4,
            "target_modules": LAYERS,
            "rank_pattern": {"outer": 2},
            "alpha_pattern": {"attention.query_key_value": 3},
        },
    ],
)
def test_we_read_theirs(folder: Path, config: dict, tmp_path: Path) -> None:
    loaded = read_model(folder / "base")
    torch.manual_seed(2)
    theirs = peft.get_peft_model(loaded.model, peft.LoraConfig(init_lora_weights=False, **config))
    expected = states(loaded, theirs)
    theirs.save_pretrained(tmp_path / "adapter")
    ours = read_stored_model(folder / "base").with_adapter(tmp_path / "adapter").load()
    torch.testing.assert_close(states(ours, ours.model), expected, rtol=1e-5, atol=1e-5)
    lines = sentences(8, 6)
    translator = load_translator(folder / "base", adapter=tmp_path / "adapter", compute_type="float32")
    hyps = translator.translate_lines(lines)
    assert len(hyps) == 8


@pytest.mark.parametrize("config", [{"use_dora": True}, {"bias": "all"}])
def test_what_we_do_not_compute_is_refused(folder: Path, config: dict, tmp_path: Path) -> None:
    loaded = read_model(folder / "base")
    theirs = peft.get_peft_model(loaded.model, peft.LoraConfig(target_modules=LAYERS, **config))
    theirs.save_pretrained(tmp_path / "adapter")
    with pytest.raises(DataError, match=f"{next(iter(config))}: .* is not read"):
        load_translator(folder / "base", adapter=tmp_path / "adapter")
