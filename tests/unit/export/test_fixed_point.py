"""Import, export and import again: nothing of a model's configuration and search changes, nor of its translations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mtkit.cli import entry
from mtkit.export.huggingface import export_huggingface
from mtkit.finetuning.extension import NewLanguage, extend_model
from mtkit.finetuning.settings import OWN
from mtkit.importers.import_model import Languages, import_model
from mtkit.model_folder.config_file import EXPORTED
from mtkit.model_folder.folder import read_metadata
from tests.toy.cards import run_card
from tests.toy.foreign_models import lines, make_m2m100, make_marian, make_mbart, make_nllb, make_t5

pytest.importorskip("transformers")
MADLAD: dict[str, Any] = {"tags": ["<2de>", "<2en>"], "tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"}
FAMILIES: dict[str, tuple[Callable[..., Path], dict[str, Any], tuple[str, str], str]] = {
    "marian": (make_marian, {"updates": 0}, ("en", "de"), "MarianTokenizer"),
    "m2m100": (make_m2m100, {"updates": 0}, ("en", "de"), "M2M100Tokenizer"),
    "nllb": (make_nllb, {"updates": 0}, ("eng_Latn", "deu_Latn"), "NllbTokenizer"),
    "mbart": (make_mbart, {"updates": 0}, ("en_XX", "de_DE"), "MBart50Tokenizer"),
    "t5": (make_t5, {}, ("en", "de"), "PreTrainedTokenizerFast"),
    "madlad": (make_t5, MADLAD, ("en", "de"), "PreTrainedTokenizerFast"),
}


def extended(model: Path, folder: Path, languages: tuple[str, str], new: str | None) -> Path:
    """The model with more pieces, and with a language if `new` is one."""
    (folder / OWN).mkdir(parents=True)
    for lang, name in zip(languages, ("train.en", "train.de"), strict=True):
        (folder / OWN / f"train.{lang}").write_text("".join(f"{line}\n" for line in lines(name, 800)))
    language = None if new is None else NewLanguage(new, languages[1])
    extend_model(model, folder, languages, count=30, language=language)
    return folder / "extended"


def cut(model: Path, folder: Path, languages: tuple[str, str]) -> Path:
    """The model with the pieces of a short text and two languages."""
    folder.mkdir()
    text = folder / "text"
    text.write_text("".join(f"{line}\n" for name in ("train.en", "train.de") for line in lines(name, 400)))
    words = ["compress", str(model), "-o", str(folder / "cut"), "--text", str(text)]
    words += ["--languages", ",".join(languages)] if read_metadata(model).languages else []
    assert entry.execute(words) == 0
    return folder / "cut"


NEW = {"m2m100": "tlh", "nllb": "gsw_Latn", "mbart": "gsw_CH"}
# MarianTokenizer segments as BPE does whose merges lead over pieces that were cut
MARIAN = {("marian", "as it is"), ("marian", "extended"), ("nllb", "cut")}
MARIAN |= {("m2m100", "extended"), ("m2m100", "cut")}  # of other languages, and pieces that are no tokens
MARIAN |= {("madlad", "extended")}  # whose sides learned pieces of their own
FAST = {("mbart", "cut")}  # of other languages
CASES = [(name, "as it is") for name in FAMILIES] + [(name, "extended") for name in FAMILIES]
CASES += [(name, "cut") for name in FAMILIES if name != "marian"]


@pytest.mark.whole
@pytest.mark.parametrize(("name", "change"), CASES)
def test_export_and_import_change_nothing(tmp_path: Path, name: str, change: str) -> None:
    make, options, languages, tokenizer = FAMILIES[name]
    make(tmp_path / "theirs", **options)
    first = tmp_path / "model"
    notes = import_model(tmp_path / "theirs", first, Languages(*languages))
    if change == "extended":
        first = extended(first, tmp_path / "run", languages, NEW.get(name))
    elif change == "cut":
        first = cut(first, tmp_path / "smaller", languages)
    check_file = tmp_path / "check.en"
    check_file.write_text("".join(f"{line}\n" for line in lines("test.en", 30)))
    said = export_huggingface(first, tmp_path / "1", check_file=check_file)
    assert said.startswith("30 of 30 translations are equal")
    is_marian = (name, change) in MARIAN
    tokenizer = "PreTrainedTokenizerFast" if (name, change) in FAST else "MarianTokenizer" if is_marian else tokenizer
    assert said.split("\n")[1].endswith(f", {tokenizer}")
    again = import_model(tmp_path / "1", tmp_path / "again", Languages(*languages))
    assert again[2:] == notes[2:]
    if is_marian:  # languages have become tags, which are never generated: nothing changes from there on
        export_huggingface(tmp_path / "again", tmp_path / "1", check_file=check_file)
        import_model(tmp_path / "1", tmp_path / "again", Languages(*languages))
    assert export_huggingface(tmp_path / "again", tmp_path / "2", check_file=check_file) == said
    for path in (tmp_path / "1").iterdir():
        if path.suffix in (".json", ".safetensors", ".spm") and path.name != EXPORTED:
            assert path.read_bytes() == (tmp_path / "2" / path.name).read_bytes(), path.name
    before, after = (asdict(read_metadata(each)) for each in (first, tmp_path / "again"))
    changed = {key for key in before if before[key] != after[key]} - {"base_model", "storage"}
    assert changed <= (
        {"languages", "tags", "requires_tag", "tokenizer"} if (name, change) in MARIAN else {"tokenizer"}
    )
    run_card(tmp_path / "1")
