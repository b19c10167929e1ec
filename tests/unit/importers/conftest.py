"""A small Marian model with random weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.toy.foreign_models import make_marian


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return make_marian(tmp_path_factory.mktemp("marian"), updates=0, d_model=32, encoder_ffn_dim=48, decoder_ffn_dim=48)


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "opus-mt-en-de"))
