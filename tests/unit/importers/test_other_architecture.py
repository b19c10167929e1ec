"""An importer of T5, outside BART's family: one file with its config and names, as docs/import.md describes.

It has RMS norms, a relative bias that all layers share, and one matrix of embeddings that serves three times, once
scaled.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file, save_file

from mtkit.errors import DataError
from mtkit.importers.architecture import ForeignArchitecture, WeightNames, require
from mtkit.importers.foreign_folder import Fields, ForeignFolder
from mtkit.importers.import_model import ARCHITECTURES, Languages, import_model
from mtkit.importers.vocabulary import ForeignTokenizers, LanguagePair, read_mapped_tokenizers
from mtkit.layers.config import PreNormConfig, RMSNormConfig
from mtkit.layers.variants.config import T5BiasConfig
from mtkit.model_folder.folder import read_model
from mtkit.models.transformer.config import TransformerConfig
from mtkit.text.vocab import SPECIAL_TOKENS
from mtkit.translate.load import load_translator
from tests.toy.foreign_models import lines, marian_tokenizer
from tests.unit.importers.test_import_model import ours_source

LAYER = {
    "attention.query_key_value": ("SelfAttention.q", "SelfAttention.k", "SelfAttention.v"),
    "attention.out": ("SelfAttention.o",),
    "attention_residual.norm": ("layer_norm",),
    "cross_attention.query": ("EncDecAttention.q",),
    "cross_attention.key_value": ("EncDecAttention.k", "EncDecAttention.v"),
    "cross_attention.out": ("EncDecAttention.o",),
    "cross_attention_residual.norm": ("layer_norm",),
    "feed_forward.inner": ("DenseReluDense.wi",),
    "feed_forward.outer": ("DenseReluDense.wo",),
    "feed_forward_residual.norm": ("layer_norm",),
}
SUBLAYERS = {"encoder": ("attention", "feed_forward"), "decoder": ("attention", "cross_attention", "feed_forward")}


class T5(ForeignArchitecture[TransformerConfig]):
    """T5 with tied embeddings."""

    name: ClassVar[str] = "t5"
    description: ClassVar[str] = "T5"

    def config(self, fields: Fields) -> TransformerConfig:
        require(fields, {"tie_word_embeddings": True, "feed_forward_proj": "relu"})
        positions = T5BiasConfig(
            num_buckets=fields.count("relative_attention_num_buckets"),
            max_distance=fields.count("relative_attention_max_distance"),
        )
        return TransformerConfig(
            d_model=fields.count("d_model"),
            d_ff=fields.count("d_ff"),
            num_heads=fields.count("num_heads"),
            head_dim=fields.count("d_kv"),
            encoder_layers=fields.count("num_layers"),
            decoder_layers=fields.count("num_decoder_layers"),
            residual=PreNormConfig(norm=RMSNormConfig(epsilon=fields.get("layer_norm_epsilon", float, 1e-6))),
            encoder_positions=positions,
            decoder_positions=positions,
            bias=False,
            scaled_attention=False,
            scaled_embeddings=False,
            tied_embeddings="none",  # the output projection is the scaled matrix
            output_bias=True,
        )

    def weights(self, config: TransformerConfig) -> Iterator[WeightNames]:
        shared, tied = ("shared.weight",), ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
        for table in ("src_embedding.table.weight", "tgt_embedding.table.weight"):
            yield WeightNames(table, shared, instead=tied)
        yield WeightNames("output.weight", shared, instead=(*tied, "lm_head.weight"), scale=config.d_model**-0.5)
        yield WeightNames("output.bias", ())
        for side, count in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
            bias = (f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",)
            yield WeightNames(f"{side}.0.attention.position.table.weight", bias)
            yield WeightNames(f"{side}_norm.weight", (f"{side}.final_layer_norm.weight",))
            for index in range(count):
                for number, sublayer in enumerate(SUBLAYERS[side]):
                    for ours, theirs in LAYER.items():
                        if ours.startswith((f"{sublayer}.", f"{sublayer}_residual.")):
                            names = tuple(f"{side}.block.{index}.layer.{number}.{each}.weight" for each in theirs)
                            yield WeightNames(f"{side}.{index}.{ours}.weight", names)

    def tokenizers(self, folder: ForeignFolder, fields: Fields, direction: LanguagePair) -> ForeignTokenizers:
        return read_mapped_tokenizers(
            folder, fields, models=("source.spm", "target.spm"), vocabularies=("vocab.json", "vocab.json")
        )


@pytest.fixture
def t5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    transformers = pytest.importorskip("transformers")
    monkeypatch.setitem(ARCHITECTURES, "t5", T5())
    folder = tmp_path / "t5-en-de"
    marian_tokenizer(folder, num_lines=1000)
    size = len(json.loads((folder / "vocab.json").read_text()))
    config = transformers.T5Config(
        vocab_size=size,
        d_model=24,
        d_kv=16,
        d_ff=40,
        num_layers=2,
        num_decoder_layers=3,
        num_heads=2,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=20,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        eos_token_id=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        model = transformers.T5ForConditionalGeneration(config).eval()
        for name, parameter in model.named_parameters():
            if "norm" in name or "relative" in name:
                torch.nn.init.normal_(parameter, mean=1.0, std=0.5)
        model.save_pretrained(folder)
    return folder


@torch.inference_mode()
def test_logits_are_those_of_transformers(t5: Path, tmp_path: Path) -> None:
    import transformers

    import_model(t5, tmp_path / "out", Languages())
    theirs, ours = transformers.T5ForConditionalGeneration.from_pretrained(t5).eval(), read_model(tmp_path / "out")
    source = ours.tokenizers.encode("src", [lines("test.en", 1)[0]])[0] * 2 + [ours.tokenizers.src.vocab.eos]
    decoded = [ours.tokenizers.tgt.vocab.bos, *range(5, 40)]
    expected = theirs(torch.tensor([source]), decoder_input_ids=torch.tensor([decoded])).logits[0]  # [T, V]
    state = ours.model.start(ours_source(source))
    for position, token in enumerate(decoded):
        step = ours.model.step(torch.tensor([token]), state)
        state, logits = step.state, step.logits()[0]
        torch.testing.assert_close(logits[: -len(SPECIAL_TOKENS)], expected[position], rtol=1e-5, atol=1e-5)
        assert logits.softmax(-1)[-len(SPECIAL_TOKENS) :].sum() == 0


def test_the_folder_translates(t5: Path, tmp_path: Path) -> None:
    import_model(t5, tmp_path / "out", Languages())
    translator = load_translator(tmp_path / "out", search_overrides=["max_length.offset=5"])
    assert len(translator.translate_lines(lines("test.en", 3))) == 3


def test_missing_and_unknown_tensors_are_named(t5: Path, tmp_path: Path) -> None:
    path = t5 / "model.safetensors"
    state = load_file(path)
    name = "encoder.block.1.layer.1.DenseReluDense.wo.weight"
    save_file({each: tensor for each, tensor in state.items() if each != name}, path)
    with pytest.raises(DataError, match=f"the weights have no {name}"):
        import_model(t5, tmp_path / "out", Languages())
    save_file({**state, "adapter": torch.zeros(3)}, path)
    with pytest.raises(DataError, match=r"adapter \(and 0 more\): no weight of t5"):
        import_model(t5, tmp_path / "out", Languages())


def test_an_importer_must_name_every_weight(t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = T5.weights
    monkeypatch.setattr(T5, "weights", lambda self, config: list(original(self, config))[:-1])
    with pytest.raises(ValueError, match=r"t5: .* decoder\.2\.feed_forward_residual\.norm\.weight"):
        import_model(t5, tmp_path / "out", Languages())
