"""`mtkit export --to argos`: what the package holds, and what is refused."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from mtkit.cli import entry
from mtkit.finetuning.extension import EXTENDED, extend_model
from mtkit.model_folder.folder import read_model, write_model
from mtkit.models.transformer.config import TransformerConfig
from mtkit.text.config import TokenizerConfig
from mtkit.text.lines import read_lines
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.training.weights import weights
from mtkit.translate.load import load_translator
from mtkit.translate.translator import TranslationOptions
from tests.toy.models import write_toy_model

ctranslate2 = pytest.importorskip("ctranslate2")
SMALL = TransformerConfig(d_model=16, d_ff=24, num_heads=4, encoder_layers=2, decoder_layers=2, output_bias=True)


def without_reserved_tokens(model: Path) -> Path:
    """The model, after a training in which no target had a reserved token: Argos Translate excludes none."""
    loaded = read_model(model)
    with torch.no_grad():
        loaded.model.output.bias[[*loaded.tokenizers.tgt.special_ids, loaded.tokenizers.tgt.vocab.unk]] = -100
        loaded.model.output.bias[loaded.tokenizers.tgt.vocab.eos] = 1
    write_model(model, weights(loaded.model), loaded.metadata, loaded.tokenizers, card="")
    return model


def export(model: Path, output: Path, text: Path) -> int:
    return int(entry.execute(["export", str(model), "--to", "argos", "-o", str(output), "--check", str(text)]))


def make_extended(folder: Path, text: Path) -> Path:
    """A toy model of subwords with further tokens for a text."""
    for language in ("en", "de"):
        own = folder / "run" / "own" / f"train.{language}"
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(10 * text.read_text(encoding="utf-8"), encoding="utf-8")
    train_pair([own], [own], folder, TokenizerConfig(model_type="bpe", vocab_size=124))
    model = write_toy_model(folder / "model", TokenizerPair.load(folder), SMALL)
    extend_model(model, folder / "run", ("en", "de"), count=20)
    sizes = [read_model(each).tokenizers.src.vocab.size for each in (model, folder / "run" / EXTENDED)]
    assert sizes[1] > sizes[0]
    return folder / "run" / EXTENDED


@pytest.mark.parametrize("is_extended", [False, True])
def test_a_package_translates_by_ctranslate2_and_sentencepiece(
    toy_model: Callable[[Any], Path], tmp_path: Path, text: Path, is_extended: bool
) -> None:
    """As argostranslate 1.11 does it, but greedily: the model is not trained."""
    model = make_extended(tmp_path / "subwords", text) if is_extended else toy_model(SMALL)
    model, output = without_reserved_tokens(model), tmp_path / "en-de.argosmodel"
    assert export(model, output, text) == 0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("en-de")] == ["en-de.argosmodel"]
    with zipfile.ZipFile(output) as archive:
        archive.extractall(tmp_path / "installed")
    (folder,) = (tmp_path / "installed").iterdir()
    description = json.loads((folder / "metadata.json").read_text())
    assert (description["from_code"], description["to_code"]) == ("en", "de")
    assert (description["from_name"], description["to_name"]) == ("English", "German")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(folder / "model"), device="cpu", compute_type="float32")
    texts = [line for line in read_lines(text) if line.strip()]
    options = {"beam_size": 1, "min_decoding_length": 0, "max_decoding_length": 20}
    results = translator.translate_batch(processor.encode(texts, out_type=str), **options)
    found = [processor.decode_pieces(each.hypotheses[0]).replace("▁", " ").strip() for each in results]
    overrides = ["beam_size=1", "max_length.offset=20", "max_length.factor=0", "retry_loops=false"]
    whole = TranslationOptions(split_sentences=False)
    ours = load_translator(model, compute_type="float32", search_overrides=overrides, options=whole)
    assert found == [each.strip() for each in ours.translate_lines(texts)]


def test_an_earlier_package_is_replaced_and_other_files_are_not(
    toy_model: Callable[[Any], Path], tmp_path: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, output = toy_model(SMALL), tmp_path / "x.argosmodel"
    assert export(model, output, text) == 0
    first = output.read_bytes()
    assert export(model, output, text) == 0
    assert output.read_bytes() == first
    output.write_text("mine")
    assert export(model, output, text) == 2
    assert output.read_text() == "mine"
    assert export(model, tmp_path / "x.zip", text) == 2
    assert "named NAME.argosmodel" in capsys.readouterr().err
