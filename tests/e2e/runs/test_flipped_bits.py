"""Every single bit of every small file of a run folder: a changed one is damage, and the message names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mtkit.corpus.store import Store
from mtkit.errors import DamagedError
from mtkit.model_folder.folder import read_metadata
from mtkit.pipeline.run_folder import read_json
from mtkit.recipe.recipe import load_recipe
from mtkit.text.tokenizer import TokenizerPair
from mtkit.training.checkpoints.checkpoint import verify_checkpoint
from tests.toy.runs import run, write_all


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bits")
    write_all(folder)
    run(folder)
    return folder / "run"


READERS: dict[str, Callable[[Path], object]] = {
    "recipe.yaml": lambda path: load_recipe(str(path)),
    "version.json": read_json,
    "report.json": read_json,
    "fingerprints.json": read_json,
    "tokenizer/fingerprint.json": read_json,
    "tokenizer/tokenizer.json": lambda path: TokenizerPair.load(path.parent),
    "corpus/train.0/manifest.json": lambda path: Store(path.parent),
    "corpus/lexicon.json": read_json,
    "checkpoints/update-00000004/manifest.json": lambda path: verify_checkpoint(path.parent),
    "model/config.json": lambda path: read_metadata(path.parent),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", READERS)
def test_changed_bits_are_damage_and_is_named(finished: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = finished / name, READERS[name]
    read(path)
    whole, read_bytes = path.read_bytes(), Path.read_bytes
    for bit in range(0, 8 * len(whole), 3):  # each bit of a byte in turn
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        with monkeypatch.context() as on_disk:
            on_disk.setattr(Path, "read_bytes", lambda file: bytes(changed) if file == path else read_bytes(file))  # noqa: B023
            with pytest.raises(DamagedError) as caught:
                read(path)
        assert path.name in str(caught.value)
        assert "--fresh" not in str(caught.value)
