"""The card and the licence of an imported model, and models by name from the hub."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mtkit.compression.compress import CompressionOptions, compress_model
from mtkit.errors import MissingExtraError
from mtkit.importers.import_model import Languages, import_model
from mtkit.model_folder.folder import read_metadata

NO_LANGUAGES = Languages()


def card_of(folder: Path) -> dict[str, Any]:
    """The head of a model card, read by another parser."""
    head = (folder / "README.md").read_text().split("---\n")[1]
    return dict(yaml.safe_load(head))


@pytest.mark.parametrize(
    ("licence", "sentence"),
    [
        ("cc-by-4.0", "Licence of opus-mt-en-de: cc-by-4.0."),
        ("cc-by-nc-4.0", "NO COMMERCIAL USE"),
        (None, "The licence of opus-mt-en-de is not stated"),
    ],
)
def test_the_licence_is_carried_over(folder: Path, tmp_path: Path, licence: str | None, sentence: str) -> None:
    head = "" if licence is None else f"license: {licence}\n"
    (folder / "README.md").write_text(f"---\nlanguage: [en, de]\n{head}tags:\n- translation\n---\n# A model\n")
    assert sentence in import_model(folder, tmp_path / "out", NO_LANGUAGES)[1]
    assert sentence in (tmp_path / "out" / "README.md").read_text()
    expected = {"language": ["en", "de"], "base_model": "opus-mt-en-de", "tags": ["mtkit", "translation"]}
    expected |= {"library_name": "mtkit", "pipeline_tag": "translation"}
    assert card_of(tmp_path / "out") == expected | ({} if licence is None else {"license": licence})
    options = CompressionOptions(to="int8")
    compress_model(tmp_path / "out", tmp_path / "small", options)
    assert read_metadata(tmp_path / "small").licence == licence
    assert sentence in (tmp_path / "small" / "README.md").read_text()


@pytest.mark.parametrize(
    "content", ["---\nlicense: [a\n---\n", "---\n- a\n---\n", "no head", "---\nlicense: 5\n---\n", "---"]
)
def test_a_card_that_cannot_be_read_has_no_licence(folder: Path, tmp_path: Path, content: str) -> None:
    (folder / "README.md").write_text(content)
    import_model(folder, tmp_path / "out", NO_LANGUAGES)
    assert read_metadata(tmp_path / "out").licence is None


def run_offline(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """mtkit in a process of its own: huggingface_hub reads its variables once."""
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_CACHE": str(tmp_path / "cache"),
        "HF_HOME": str(tmp_path),
    }
    command = [sys.executable, "-m", "mtkit", "import", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.whole
def test_a_model_of_the_hub_comes_from_the_cache(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    entry = tmp_path / "cache" / "models--Helsinki-NLP--opus-mt-en-de"
    (entry / "refs").mkdir(parents=True)
    (entry / "refs" / "main").write_text("0" * 40)
    shutil.copytree(folder, entry / "snapshots" / ("0" * 40))
    done = run_offline(tmp_path, "Helsinki-NLP/opus-mt-en-de", "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert read_metadata(tmp_path / "out").base_model == "Helsinki-NLP/opus-mt-en-de"


@pytest.mark.whole
def test_without_the_hub_the_message_says_how_to_bring_the_folder(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    done = run_offline(tmp_path, "Helsinki-NLP/opus-mt-xx-yy", "-o", str(tmp_path / "out"))
    assert done.returncode == 66
    assert done.stderr.count("\n") == 1
    assert "save all files of https://huggingface.co/Helsinki-NLP/opus-mt-xx-yy/tree/main" in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_the_package_the_message_says_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        MissingExtraError, match=r"pip install 'mtkit\[hub\]'; or .* save all files of https://hug"
    ) as caught:
        import_model(Path("Helsinki-NLP/opus-mt-xx-yy"), tmp_path / "out", NO_LANGUAGES)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
