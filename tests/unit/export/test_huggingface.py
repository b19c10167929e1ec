"""Models as classes of transformers: equal translations, and what no class computes is refused by its key."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mtkit.errors import DataError, UsageError
from mtkit.export import huggingface
from mtkit.export.huggingface import export_huggingface
from mtkit.importers.import_model import Languages, import_model
from mtkit.layers.config import (
    DenseConfig,
    GatedConfig,
    LayerNormConfig,
    LearnedConfig,
    PostNormConfig,
    PreNormConfig,
    RMSNormConfig,
    RoPEConfig,
    SandwichNormConfig,
    SinusoidalConfig,
)
from mtkit.layers.variants.config import T5BiasConfig
from mtkit.model_folder.folder import ModelMetadata, read_model, update_search_config, write_model
from mtkit.models.transformer.config import AllSharedConfig, TransformerConfig
from mtkit.search.config import LengthLimit, MaxLength, SearchConfig
from mtkit.search.length_penalty import GNMT
from mtkit.text.config import TokenizerConfig
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair
from mtkit.training.weights import weights
from mtkit.translate.load import load_translator
from tests.toy.cards import run_card
from tests.toy.foreign_models import DATA, lines
from tests.toy.sampling import sampled

pytest.importorskip("transformers")
SIZES: dict[str, Any] = {"d_model": 24, "d_ff": 32, "num_heads": 3, "encoder_layers": 2, "decoder_layers": 2}
MARIAN = TransformerConfig(**SIZES, residual=PostNormConfig())
CONCATENATED = {f"{side}_positions": SinusoidalConfig(layout="concatenated") for side in ("encoder", "decoder")}


@pytest.fixture(scope="module", params=[True, False], ids=["one vocabulary", "two vocabularies"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TokenizerPair:
    folder = tmp_path_factory.mktemp("text")
    for name in ("train.en", "train.de"):
        (folder / name).write_text("\n".join(lines(name, 500)) + "\n")
    config = TokenizerConfig(vocab_size=400, shared=request.param)
    train_pair([folder / "train.en"], [folder / "train.de"], folder, config)
    return TokenizerPair.load(folder)


def write(folder: Path, pair: TokenizerPair, config: TransformerConfig, end: float | None = None) -> Path:
    """A model with random weights; `end` is the bias of the end of sentence."""
    torch.manual_seed(3)
    model = config.build(*pair.vocab_sizes)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1) / 2, std=0.3)
    if end is not None:
        model.output.bias.data[pair.tgt.vocab.eos] = end
    metadata = ModelMetadata(
        src_lang="en",
        tgt_lang="de",
        max_source_length=60,
        tokenizer=pair.config,
        model=config,
        search=SearchConfig(beam_size=4, max_length=MaxLength(factor=0.0, offset=12)),
    )
    write_model(folder, weights(model), metadata, pair, card="")
    return folder


def both(positions: Any) -> dict[str, Any]:
    return {f"{side}_positions": positions for side in ("encoder", "decoder")}


PRE, LEARNED = {"residual": PreNormConfig()}, both(LearnedConfig(max_length=64))
T5_PARTS: dict[str, Any] = {
    **both(T5BiasConfig(num_buckets=8, max_distance=20)),
    "residual": PreNormConfig(norm=RMSNormConfig()),
    "bias": False,
    "scaled_attention": False,
    "scaled_embeddings": False,
}
CLASSES: dict[str, tuple[str, dict[str, Any]]] = {
    "alternating sinusoids": ("MarianMTModel", {}),
    "as Marian": ("MarianMTModel", {**CONCATENATED, "output_bias": True, "scaled_embeddings": False}),
    "target": ("MarianMTModel", {"tied_embeddings": "target", "feed_forward": DenseConfig(activation="gelu")}),
    "defaults": ("Pegasus", PRE),
    "without biases": ("Pegasus", {**PRE, "bias": False, "activation_dropout": 0.1, "alignment_head": [1, 0]}),
    "other decoder": ("Pegasus", {**PRE, "decoder_d_ff": 40, "decoder_num_heads": 2, "output_bias": True}),
    "fairseq": ("M2M100", {**PRE, **both(SinusoidalConfig(layout="concatenated", offset=1, reaches_base=True))}),
    # the class begins after the id of padding, which is 0 here
    "other begin": ("Pegasus", {**PRE, **both(SinusoidalConfig(layout="concatenated", offset=2, reaches_base=True))}),
    "learned": ("Blenderbot", {**PRE, **LEARNED}),
    "learned, norm": ("MBart", {**PRE, **LEARNED, "embedding_norm": True}),
    "post-norm, learned, norm": ("Bart", {**LEARNED, "embedding_norm": True}),
    "T5": ("T5", {**T5_PARTS, "head_dim": 10, "scaled_output": True}),
    "T5 gated": ("T5", {**T5_PARTS, "feed_forward": GatedConfig(activation="gelu_tanh")}),
}
ONLY_MARIAN = ("alternating sinusoids", "as Marian", "target")  # has two vocabularies


@pytest.mark.parametrize(
    "name", [name if name == "defaults" else pytest.param(name, marks=pytest.mark.whole) for name in CLASSES]
)
def test_translations_are_those_of_the_model(tmp_path: Path, pair: TokenizerPair, name: str) -> None:
    kind, changes = CLASSES[name]
    if not pair.shared:
        if name not in ONLY_MARIAN:
            pytest.skip("one vocabulary alone")
        changes = {"tied_embeddings": "target", **changes}
    model = write(tmp_path / "model", pair, replace(MARIAN, **changes))
    check_file = tmp_path / "check.en"
    count = sampled(100, least=20)
    check_file.write_text("".join(f"{line}\n" for line in lines("test.en", count)))
    message = export_huggingface(model, tmp_path / "theirs", check_file=check_file)
    assert message.startswith(f"{count} of {count} translations are equal")
    assert f"class: {kind}" in message
    assert "library_name: transformers" in (tmp_path / "theirs" / "README.md").read_text()
    run_card(tmp_path / "theirs")
    if kind in ("M2M100", "MBart", "T5") or name == "other begin":  # imported with tokenizers or positions of their own
        return
    import_model(tmp_path / "theirs", tmp_path / "again", Languages())
    overrides = ["retry_loops=false", "allow_unknown=false"]
    texts = lines("test.en", 15)
    first, second = (
        load_translator(tmp_path / name, compute_type="float32", search_overrides=overrides).translate_lines(texts)
        for name in ("model", "again")
    )
    assert first == second


@pytest.mark.whole
def test_a_difference_is_found_and_nothing_is_written(tmp_path: Path, pair: TokenizerPair, monkeypatch: Any) -> None:
    config = replace(MARIAN, tied_embeddings="target")
    model = write(tmp_path / "model", pair, config)
    right = huggingface.hub_tensors

    def wrong(*arguments: Any) -> dict[str, torch.Tensor]:
        tensors = right(*arguments)
        return {**tensors, "final_logits_bias": 3 * torch.randn_like(tensors["final_logits_bias"])}

    monkeypatch.setattr(huggingface, "hub_tensors", wrong)
    with pytest.raises(DataError, match="translates differently"):
        export_huggingface(model, tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


REFUSED: dict[str, dict[str, Any]] = {
    "residual.norm.kind: rms": {"residual": PostNormConfig(norm=RMSNormConfig())},
    "residual.norm.epsilon: 0.001": {"residual": PostNormConfig(norm=LayerNormConfig(epsilon=1e-3))},
    "residual.kind: sandwich": {"residual": SandwichNormConfig()},
    "encoder_positions.kind: rope": {**PRE, "encoder_positions": RoPEConfig()},
    "decoder_positions.kind: learned": {"decoder_positions": LearnedConfig()},
    "encoder_positions.layout: concatenated": {"encoder_positions": SinusoidalConfig(layout="concatenated")},
    "encoder_positions.offset: 2": both(SinusoidalConfig(offset=2)),
    "tied_embeddings: none": {**PRE, "tied_embeddings": "none"},
    "tied_embeddings: target": {**PRE, "tied_embeddings": "target"},
    "num_kv_heads: 1": {"num_kv_heads": 1},
    "encoder_heads": {"encoder_heads": [1, 2]},
    "encoder_sharing.kind: all": {"encoder_sharing": AllSharedConfig()},
    "feed_forward.kind: gated": {"feed_forward": GatedConfig()},
    "qk_norm: rms": {"qk_norm": "rms"},
}


@pytest.mark.parametrize("key", REFUSED)
def test_other_models_are_refused(tmp_path: Path, pair: TokenizerPair, key: str) -> None:
    if not pair.shared:
        pytest.skip("one vocabulary is enough")
    model = write(tmp_path / "model", pair, replace(MARIAN, **REFUSED[key]))
    with pytest.raises(UsageError, match=f"model.{key}.*not supported by Hugging Face export; .* computes "):
        export_huggingface(model, tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


SEARCHES = {
    "late": SearchConfig(beam_size=3, early_stopping=False, length_penalty=0.3, no_repeat_ngram=2),
    "never": SearchConfig(beam_size=4, patience=1e6, repetition_penalty=1.5, allow_unknown=True),
    "long": SearchConfig(beam_size=2, min_length=LengthLimit(offset=6), length_penalty=0.0),
    "greedy": SearchConfig(beam_size=1, no_repeat_ngram=3, min_length=LengthLimit(offset=2)),
}


ENDS = {"long": 5.0, "greedy": 5.0}  # so that translations end, as early as they may


@pytest.mark.whole
@pytest.mark.parametrize("name", SEARCHES)
def test_transformers_searches_by_the_exported_settings(tmp_path: Path, pair: TokenizerPair, name: str) -> None:
    """Without any option of a call; at the maximum length it ends hypotheses at no cost, unlike mtkit."""
    import transformers

    if not pair.shared:
        pytest.skip("one vocabulary is enough")
    model = write(tmp_path / "model", pair, replace(MARIAN, output_bias=name in ENDS), end=ENDS.get(name))
    search = replace(SEARCHES[name], max_length=MaxLength(factor=0.0, offset=40), retry_loops=False)
    update_search_config(model, replace(search, split_long_lines=False))
    summary = export_huggingface(model, tmp_path / "theirs", check_file=DATA / "test.en")
    assert "not computed" not in summary
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "theirs").eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "theirs")
    texts = lines("test.en", 12)
    ours = load_translator(model, compute_type="float32").translate_lines(texts)
    plain = load_translator(model, compute_type="float32", search_overrides=["beam_size=1"]).translate_lines(texts)
    found = [theirs.generate(**tokenizer(text, return_tensors="pt"))[0] for text in texts]
    compared = [number for number, ids in enumerate(found) if len(ids) < 40]
    assert len(compared) >= 3
    expected = [tokenizer.decode(found[number], skip_special_tokens=True) for number in compared]
    assert [ours[number] for number in compared] == expected
    assert name == "greedy" or [plain[number] for number in compared] != expected


@pytest.mark.whole
def test_settings_without_a_form_in_transformers_are_named(tmp_path: Path, pair: TokenizerPair) -> None:
    model = write(tmp_path / "model", pair, replace(MARIAN, tied_embeddings="target"))
    search = SearchConfig(repetition_penalty=1.5, coverage_penalty=0.5, patience=4.0, length_penalty=GNMT())
    update_search_config(model, search)
    sentence = export_huggingface(model, tmp_path / "theirs").split("\n")[-1]
    for words in ("length_penalty={", "max_length={", "patience=4.0", "coverage_penalty=0.5", "retry_loops=true"):
        assert f"search.{words}" in sentence
    assert "repetition_penalty" not in sentence
    settings = json.loads((tmp_path / "theirs" / "generation_config.json").read_text())
    assert settings["repetition_penalty"] == 1.5


@pytest.mark.whole
def test_settings_of_generation_are_written(tmp_path: Path, pair: TokenizerPair) -> None:
    config = replace(MARIAN, tied_embeddings="target")
    export_huggingface(write(tmp_path / "model", pair, config), tmp_path / "theirs")
    settings = json.loads((tmp_path / "theirs" / "generation_config.json").read_text())
    assert (settings["num_beams"], settings["early_stopping"], settings["length_penalty"]) == (4, True, 1.0)
    assert read_model(tmp_path / "model").tokenizers.tgt.vocab.bos == settings["decoder_start_token_id"]
