"""Models of many languages in other programs: equal translations, in the direction that is chosen there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mtkit.export.ctranslate2 import export_ctranslate2
from mtkit.export.huggingface import export_huggingface
from mtkit.export.usage import LINE
from mtkit.importers.import_model import Languages, import_model
from mtkit.layers.config import LearnedConfig
from mtkit.model_folder.folder import ModelMetadata, read_metadata, read_model, update_search_config, write_model
from mtkit.models.transformer.config import TransformerConfig
from mtkit.search.config import MaxLength, SearchConfig
from mtkit.text.config import TokenizerConfig
from mtkit.text.source_prefix import SourcePrefix
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.training.weights import weights
from mtkit.translate.load import load_translator
from mtkit.translate.translation import TranslationOptions
from tests.toy.cards import run_card
from tests.toy.foreign_models import lines, make_m2m100, make_mbart, make_nllb, make_t5
from tests.toy.sampling import sampled

pytest.importorskip("transformers")
LIMIT = MaxLength(factor=0.0, offset=12)
SEARCH = SearchConfig(beam_size=1, max_length=LIMIT, retry_loops=False, split_long_lines=False)


def imported(make: Callable[[Path], Any], src: str, tgt: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        make(folder / "theirs")
        import_model(folder / "theirs", folder / "model", Languages(src, tgt))
        search = replace(read_metadata(folder / "model").search, beam_size=1, max_length=LIMIT, split_long_lines=False)
        update_search_config(folder / "model", search)
        return folder / "model"

    return write


def own(folder: Path, **keys: Any) -> Path:
    """A model of mtkit with tokens of languages on both sides, and random weights; `keys` of its configuration."""
    folder.mkdir()
    for name in ("train.en", "train.de"):
        (folder / name).write_text("\n".join(lines(name, 500)) + "\n")
    config = TokenizerConfig(vocab_size=400)
    train_pair([folder / "train.en"], [folder / "train.de"], folder, config)
    pair = replace(TokenizerPair.load(folder), languages=("en", "de"), direction=("en", "de"))
    torch.manual_seed(3)
    model_config = TransformerConfig(d_model=24, d_ff=32, num_heads=3, encoder_layers=2, decoder_layers=2, **keys)
    model = model_config.build(*pair.vocab_sizes)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1) / 2, std=0.3)
    metadata = ModelMetadata(
        src_lang="en",
        tgt_lang="de",
        max_source_length=60,
        tokenizer=pair.config,
        model=model_config,
        search=SEARCH,
        languages=["en", "de"],
    )
    write_model(folder / "model", weights(model), metadata, pair, card="")
    return folder / "model"


def biased(folder: Path) -> Path:
    """An M2M-100 whose output has got a bias by a training in mtkit: transformers' class has none."""
    model = imported(lambda each: make_m2m100(each, updates=0), "en", "de")(folder)
    loaded = read_model(model)
    torch.nn.init.normal_(loaded.model.output.bias[:600], std=0.5)
    write_model(model, weights(loaded.model), loaded.metadata, loaded.tokenizers, card="")
    return model


@pytest.mark.whole
def test_a_translation_and_its_language_fit_the_learned_positions(tmp_path: Path) -> None:
    positions = LearnedConfig(max_length=30)
    model = own(tmp_path / "made", encoder_positions=positions, decoder_positions=positions)
    update_search_config(model, replace(SEARCH, max_length=MaxLength(factor=0.0, offset=100)))
    texts = [line[:20] for line in lines("test.en", 6)]
    found = load_translator(model, compute_type="float32").translate(texts)
    assert max(len(each.tokens) for each in found) == 28  # the positions but those of the start and of the language
    check_file = tmp_path / "check.en"
    check_file.write_text("\n".join(texts))
    for export in (export_huggingface, export_ctranslate2):
        assert export(model, tmp_path / export.__name__, check_file=check_file).startswith("6 of 6 translations")


NLLB = ("eng_Latn", "deu_Latn")
MADLAD: dict[str, Any] = {"tags": ["<2de>", "<2en>"], "tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"}
MODELS: dict[str, tuple[Callable[[Path], Path], str, tuple[str, str]]] = {
    "own": (own, "Pegasus", ("en", "de")),
    "m2m100": (imported(lambda each: make_m2m100(each, updates=0), "en", "de"), "M2M100", ("en", "de")),
    "nllb": (imported(lambda each: make_nllb(each, updates=0), *NLLB), "M2M100", NLLB),
    "mbart": (imported(lambda each: make_mbart(each, updates=0), "en_XX", "de_DE"), "MBart", ("en_XX", "de_DE")),
    "bias": (biased, "Pegasus", ("en", "de")),
    "madlad": (imported(lambda each: make_t5(each, **MADLAD), "en", "de"), "T5", ("", "de")),
    "t5": (imported(make_t5, "en", "de"), "T5", ("", "")),
}
# what begins a text, and the name of a language
MARKS = dict.fromkeys(("own", "bias"), (">>{}<<", ">>{}<<")) | {"m2m100": ("", "__{}__"), "madlad": ("<2{}> ", "")}


@pytest.mark.parametrize(
    "name", [name if name == "own" else pytest.param(name, marks=pytest.mark.whole) for name in MODELS]
)
def test_translations_are_equal_in_both_directions(tmp_path: Path, name: str) -> None:
    import transformers

    make, kind, (src, tgt) = MODELS[name]
    model = make(tmp_path / "made")
    count = sampled(100, least=10)
    check_file = tmp_path / "check.en"
    check_file.write_text("".join(f"{line}\n" for line in lines("test.en", count)))
    message = export_huggingface(model, tmp_path / "theirs", check_file=check_file)
    assert message.startswith(f"{count} of {count} translations are equal")
    assert f"class: {kind}" in message
    pytest.importorskip("ctranslate2")
    message = export_ctranslate2(model, tmp_path / "fast", check_file=check_file)
    assert message.startswith(f"{count} of {count} translations are equal")
    printed = [run_card(tmp_path / each) for each in ("theirs", "fast")]
    if name == "own":
        assert printed == load_translator(model, compute_type="float32").translate_lines([LINE]) * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
        theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "theirs").eval()
    texts = lines("test.en", 6)
    for first, second in [(src, tgt), (tgt, src)] if src else [(src, tgt)]:
        options = TranslationOptions(
            source_prefix=SourcePrefix(src_lang=first, tgt_lang=second) if first else SourcePrefix(),
            split_sentences=False,
        )
        ours = load_translator(model, compute_type="float32", options=options).translate_lines(texts)
        start, mark = MARKS.get(name, ("", "{}"))
        if not start and first:
            tokenizer.src_lang = first
        start = start.format(first or second)
        chosen = {"forced_bos_token_id": tokenizer.convert_tokens_to_ids(mark.format(second))} if first else {}
        batch = tokenizer([start + text for text in texts], return_tensors="pt", padding=True)
        found = tokenizer.batch_decode(theirs.generate(**batch, **chosen), skip_special_tokens=True)
        assert ours == found
        if name == "own" and first == src:
            import_model(tmp_path / "theirs", tmp_path / "again", Languages(first, second))
            options = replace(options, source_prefix=SourcePrefix(tag=first))
            again = load_translator(tmp_path / "again", compute_type="float32", options=options)
            assert again.translate_lines(texts) == ours
            assert again.search.max_length == LIMIT
