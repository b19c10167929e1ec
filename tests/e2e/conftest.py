"""Small untrained models in folders, for the commands that take a MODEL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mtkit.models.capabilities import ModelConfigBase
from mtkit.pipeline import stages
from mtkit.pipeline.run_report import write_report
from mtkit.text.config import TokenizerConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from tests.toy.models import sentences, write_toy_model


@pytest.fixture(scope="session", autouse=True)
def _without_report() -> Iterator[None]:
    """The report takes most of the time of a toy run."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stages, "write_report", lambda run: None)
        yield


@pytest.fixture
def with_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run writes its report, in this process."""
    monkeypatch.setattr(stages, "write_report", write_report)


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> TokenizerPair:
    """Of characters, so that a text has one segmentation only."""
    folder = tmp_path_factory.mktemp("tokenizer")
    text = folder / "text"
    text.write_text("".join(f"{line}\n" for line in sentences(200)))
    train_pair([text], [text], folder, TokenizerConfig(model_type="char", vocab_size=122))
    return TokenizerPair.load(folder)


@pytest.fixture
def toy_model(tokenizers: TokenizerPair, tmp_path: Path) -> Callable[[ModelConfigBase], Path]:
    """Makes a model folder of this kind."""

    return lambda config: write_toy_model(tmp_path / f"model-{config.kind}", tokenizers, config)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Some lines, two of them blank."""
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in [*sentences(10), "", " \t"]))
    return path
