"""Folders of models of the kinds that people have: each computes what transformers does, or is refused in a sentence.

The models have random weights; their tokenizers are trained on the embedded corpus, so that ids are compared too.
"""

from __future__ import annotations

import json
import random
import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mtkit.errors import DataError, MtkitError
from mtkit.importers.import_model import Languages, import_model
from mtkit.model_folder.folder import read_model, read_stored_model
from mtkit.translate.load import load_translator
from tests.toy.foreign_models import lines, make_m2m100, make_marian, make_mbart, make_nllb, make_t5
from tests.toy.sampling import sampled, thinned

NLLB, MBART, PLAIN = Languages("eng_Latn", "deu_Latn"), Languages("en_XX", "de_DE"), Languages("en", "de")
ADDED = ("<ph>", "XYZ")
WITH_ADDED = ["See <ph> now.", "<ph><ph> A dog.", "XYZ runs, <ph>."]  # none inside a word


class Case(NamedTuple):
    """A folder: how it is made of another, the classes of transformers that read it, and its languages."""

    base: str
    change: Callable[[Path], None]
    model: str
    tokenizer: str
    languages: Languages
    prefix: str = ""  # of sources in transformers
    texts: Sequence[str] = ()  # further sources


def resized(model: str, size: int) -> Callable[[Path], None]:
    """More rows than tokens, as `resize_token_embeddings` makes them."""

    def change(folder: Path) -> None:
        import transformers

        theirs = getattr(transformers, model).from_pretrained(folder)
        theirs.resize_token_embeddings(size)
        theirs.save_pretrained(folder)

    return change


def with_added(model: str, tokenizer: str, *names: str, **languages: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        import transformers

        tokens = getattr(transformers, tokenizer).from_pretrained(folder, **languages)
        tokens.add_tokens([*names])
        theirs = getattr(transformers, model).from_pretrained(folder)
        theirs.resize_token_embeddings(max(len(tokens), theirs.config.vocab_size))
        theirs.save_pretrained(folder)
        tokens.save_pretrained(folder)

    return change


def shards(folder: Path) -> None:
    """Two pickles and their index, as early versions of transformers wrote large models."""
    state = load_file(folder / "model.safetensors")
    names = {key: f"pytorch_model-0000{number % 2 + 1}-of-00002.bin" for number, key in enumerate(state)}
    for name in set(names.values()):
        torch.save({key: tensor for key, tensor in state.items() if names[key] == name}, folder / name)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    (folder / "model.safetensors").unlink()


def as_of_2020(folder: Path) -> None:
    """A conversion of OPUS-MT of spring 2020: a file of torch before 1.6, and the keys of its config.json.

    The keys are those of BartConfig and PretrainedConfig of transformers 2.9, which had no generation_config.json; its
    documentation has `add_bias_logits` as true, its conversions as false, and no code read it.
    """
    import transformers

    model = transformers.MarianMTModel.from_pretrained(folder)
    state: dict[str, Any] = load_file(folder / "model.safetensors")
    for side in ("encoder", "decoder"):
        state[f"model.{side}.embed_tokens.weight"] = state["model.shared.weight"]
        state[f"model.{side}.embed_positions.weight"] = model.get_submodule(f"model.{side}.embed_positions").weight
    torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    (folder / "model.safetensors").unlink()
    (folder / "generation_config.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    for key in ("dtype", "transformers_version", "decoder_vocab_size", "tie_word_embeddings", "forced_eos_token_id"):
        config.pop(key, None)
    config |= {
        "_num_labels": 3,
        "add_bias_logits": True,
        "add_final_layer_norm": False,
        "classif_dropout": 0.0,
        "do_blenderbot_90_layernorm": False,
        "do_sample": False,
        "early_stopping": False,
        "extra_pos_embeddings": config["vocab_size"],
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
        "max_length": 512,
        "normalize_before": False,
        "normalize_embedding": False,
        "num_beams": 6,
        "num_hidden_layers": 2,
        "num_labels": 3,
        "output_past": True,
        "prefix": None,
        "pruned_heads": {},
        "repetition_penalty": 1.0,
        "task_specific_params": None,
        "temperature": 1.0,
        "top_k": 50,
        "torchscript": False,
        "use_bfloat16": False,
        "static_position_embeddings": True,
        "bad_words_ids": [[config["pad_token_id"]]],
    }
    (folder / "config.json").write_text(json.dumps(config))


def set_keys(name: str, **changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        values = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
        (folder / name).write_text(json.dumps({**values, **changes}))

    return change


def without(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change


def mbart_of_25(folder: Path) -> None:
    for name in ("config.json", "generation_config.json"):
        set_keys(name, decoder_start_token_id=_language_id(folder, "de_DE"))(folder)
    set_keys("tokenizer_config.json", tokenizer_class="MBartTokenizer")(folder)


def _language_id(folder: Path, name: str) -> int:
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    return int(next(each["id"] for each in added if each["content"] == name))


def nothing(folder: Path) -> None:
    """The folder as it is."""


SPM = "sentencepiece.bpe.model"
M2M, MARIAN, T5 = "M2M100ForConditionalGeneration", "MarianMTModel", "T5ForConditionalGeneration"
MBART_MODEL = "MBartForConditionalGeneration"
CASES = {
    "Marian with padded rows": Case("marian", resized(MARIAN, 1024), MARIAN, "MarianTokenizer", PLAIN),
    "Marian with added tokens": Case(
        "marian", with_added(MARIAN, "MarianTokenizer", *ADDED), MARIAN, "MarianTokenizer", PLAIN, texts=WITH_ADDED
    ),
    "Marian in two pickles": Case("marian", shards, MARIAN, "MarianTokenizer", PLAIN),
    "Marian of spring 2020": Case("marian", as_of_2020, MARIAN, "MarianTokenizer", PLAIN),
    "Marian of two widths": Case("marian of two widths", nothing, MARIAN, "MarianTokenizer", PLAIN),
    "M2M-100 with padded rows": Case("m2m100", resized(M2M, 800), M2M, "M2M100Tokenizer", PLAIN),
    "NLLB of transformers 5": Case("nllb", without(SPM), M2M, "NllbTokenizer", NLLB),
    "NLLB with added tokens": Case(
        "nllb",
        with_added(M2M, "NllbTokenizer", *ADDED, src_lang="eng_Latn", tgt_lang="deu_Latn"),
        M2M,
        "NllbTokenizer",
        NLLB,
        texts=WITH_ADDED,
    ),
    "NLLB of legacy behaviour": Case(
        "nllb", set_keys("tokenizer_config.json", legacy_behaviour=True), M2M, "NllbTokenizer", NLLB
    ),
    "mBART-50 of transformers 5": Case("mbart", without(SPM), MBART_MODEL, "MBart50Tokenizer", MBART),
    "mBART of 25 languages": Case("mbart", mbart_of_25, MBART_MODEL, "MBartTokenizer", MBART),
    "T5": Case("t5", nothing, T5, "T5Tokenizer", PLAIN),
    "T5 of version 1.1, of transformers 5": Case(
        "t5 v1.1", without("spiece.model"), T5, "T5Tokenizer", PLAIN
    ),
    "MADLAD-400": Case("madlad", nothing, T5, "T5Tokenizer", PLAIN, prefix="<2de> "),
    "MADLAD-400 of transformers 5": Case(
        "madlad", without("spiece.model"), T5, "T5Tokenizer", PLAIN, prefix="<2de> "
    ),
}  # fmt: skip
BASES: dict[str, Callable[[Path], Path]] = {
    "marian": lambda folder: make_marian(folder, updates=0),
    "marian of two widths": lambda folder: make_marian(
        folder, updates=0, decoder_ffn_dim=96, decoder_attention_heads=2, activation_function="gelu_new"
    ),
    "m2m100": lambda folder: make_m2m100(folder, updates=0),
    "nllb": lambda folder: make_nllb(folder, updates=0),
    "mbart": lambda folder: make_mbart(folder, updates=0),
    "t5": make_t5,
    "t5 v1.1": lambda folder: make_t5(folder, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "madlad": lambda folder: make_t5(
        folder, tags=("<2de>", "<2fr>"), feed_forward_proj="gated-gelu", tie_word_embeddings=False
    ),
}


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a folder of a kind once, and copies it."""
    pytest.importorskip("transformers")
    made: dict[str, Path] = {}

    def copy(name: str) -> Path:
        if name not in made:
            made[name] = BASES[name](tmp_path_factory.mktemp("base") / "model")
        return Path(shutil.copytree(made[name], tmp_path_factory.mktemp("case") / "model"))

    return copy


def reference_log_probs(case: Case, folder: Path, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], float]]:
    """The ids of each source, and the log-probability of its translation, by transformers."""
    import transformers

    is_multilingual = case.languages is not PLAIN or "M2M" in case.tokenizer
    languages = {"src_lang": case.languages.src, "tgt_lang": case.languages.tgt} if is_multilingual else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = getattr(transformers, case.tokenizer).from_pretrained(folder, **languages)
        model = getattr(transformers, case.model).from_pretrained(folder).eval()
    results = []
    for source, target in pairs:
        batch = tokenizer(case.prefix + source, text_target=target, return_tensors="pt")
        labels = batch.pop("labels")[0].tolist()
        eos, start = model.config.eos_token_id, model.config.decoder_start_token_id
        language = tokenizer.convert_tokens_to_ids(case.languages.tgt) if is_multilingual else None
        if case.tokenizer == "M2M100Tokenizer":
            language = tokenizer.get_lang_id(case.languages.tgt)
        tokens = [each for each in labels if each not in (language, eos)] + [eos]
        forced = [] if language is None or language == start else [language]
        inputs = torch.tensor([[start, *forced, *tokens[:-1]]])
        log_probs = model(**batch, decoder_input_ids=inputs).logits[0].log_softmax(-1)[len(forced) :]
        total = sum(float(log_probs[place, token]) for place, token in enumerate(tokens))
        results.append((batch["input_ids"][0].tolist(), total))
    return results


def our_log_prob(loaded: Any, source: str, target: str) -> tuple[list[int], float]:
    """The same of the reference implementation, one token after another."""
    from mtkit.corpus.order.batch import Source

    src, tgt = loaded.tokenizers.src, loaded.tokenizers.tgt
    ids = [*loaded.tokenizers.first_ids("src"), *loaded.tokenizers.encode("src", [source])[0], *src.ending()]
    before = loaded.tokenizers.first_ids("tgt")
    tokens = [*before, *loaded.tokenizers.encode("tgt", [target])[0], tgt.vocab.eos]
    pos = torch.arange(len(ids)).unsqueeze(0)
    state = loaded.model.start(Source(torch.tensor([ids]), torch.ones_like(pos, dtype=torch.bool), pos))
    total, previous = 0.0, tgt.vocab.bos
    for place, token in enumerate(tokens):
        step = loaded.model.step(torch.tensor([previous]), state)
        state, previous = step.state, token
        if place >= len(before):  # the name of the language is given
            total += float(step.logits()[0].log_softmax(-1)[token])
    return ids, total


@pytest.mark.whole
@pytest.mark.parametrize("name", thinned(CASES, 3))
@torch.inference_mode()
def test_given_translations_have_the_log_probabilities_of_transformers(
    bases: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    folder = bases(case.base)
    case.change(folder)
    notes = import_model(folder, tmp_path / "out", case.languages)
    assert not [note for note in notes[2:] if "max_length" not in note]
    texts = [*lines("test.en", 3), *case.texts]
    pairs = list(zip(texts, lines("test.de", len(texts)), strict=True))
    loaded = read_model(tmp_path / "out")
    for (source, target), (ids, log_prob) in zip(pairs, reference_log_probs(case, folder, pairs), strict=True):
        found, ours = our_log_prob(loaded, source, target)
        assert found == ids
        assert ours == pytest.approx(log_prob, abs=1e-4 * max(1, len(ids)))
    translations = load_translator(tmp_path / "out", search_overrides=["max_length.offset=5"]).translate_lines(texts)
    assert len(translations) == len(texts)


@pytest.mark.parametrize("name", [each for each in CASES if "of transformers 5" in each and "MADLAD" not in each])
def test_texts_have_the_ids_of_the_tokenizer_that_was_imported(
    bases: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    """Random lines of the characters that make tokenizers differ: spaces, ligatures, unknown ones."""
    import transformers

    case = CASES[name]
    folder = bases(case.base)
    case.change(folder)
    import_model(folder, tmp_path / "out", case.languages)
    ours = read_model(tmp_path / "out").tokenizers.src
    theirs = getattr(transformers, case.tokenizer).from_pretrained(folder)
    rng = random.Random(5)
    words = [*["ä", "ﬁ", "½", "Ａ", "中", "😀", "é", ".", ",", "##"], *" ".join(lines("test.en", 40)).split()]
    for _ in range(sampled(200, 20)):
        text = "".join(rng.choice(words) + " " * rng.choice((0, 1, 1, 1, 2)) for _ in range(9)).strip()
        assert ours.encode([text])[0] == theirs(text, add_special_tokens=False)["input_ids"], text


@torch.inference_mode()
def test_adapters_of_the_original_model_are_applied(bases: Callable[[str], Path], tmp_path: Path) -> None:
    """In the layout of peft, with the names of transformers: as if the update were in the imported weights."""
    for base, modules, form in (
        ("marian", ("encoder_attn.v_proj", "self_attn.q_proj", "fc1"), "model.decoder.layers.1.{}"),
        ("t5 v1.1", ("layer.0.SelfAttention.k", "layer.2.DenseReluDense.wi_1"), "decoder.block.1.{}"),
    ):
        folder, adapter = bases(base), tmp_path / f"{base} adapter"
        import_model(folder, tmp_path / base, PLAIN)
        state, tensors = load_file(folder / "model.safetensors"), dict[str, torch.Tensor]()
        for module in modules:
            weight = state[f"{form.format(module)}.weight"]
            down, up = torch.randn(4, weight.size(1)), torch.randn(weight.size(0), 4)
            tensors |= {
                f"base_model.model.{form.format(module)}.lora_A.weight": down,
                f"base_model.model.{form.format(module)}.lora_B.weight": up,
            }
            state[f"{form.format(module)}.weight"] = weight + 2 * up @ down
        write_adapter(adapter, tensors)
        found = read_stored_model(tmp_path / base).with_adapter(adapter).weights
        save_file(state, folder / "model.safetensors")
        import_model(folder, tmp_path / f"{base} merged", PLAIN)
        merged = read_stored_model(tmp_path / f"{base} merged").weights
        for name, array in merged.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5, err_msg=name)
        write_adapter(adapter, {key.replace(modules[0], "lm_head"): tensor for key, tensor in tensors.items()})
        with pytest.raises(DataError, match=r"is not in the model; .*merge_and_unload"):
            read_stored_model(tmp_path / base).with_adapter(adapter)


def write_adapter(folder: Path, tensors: dict[str, torch.Tensor], **changes: Any) -> None:
    folder.mkdir(exist_ok=True)
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "base_model_name_or_path": "models/hf", **changes}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "adapter_model.safetensors")


@pytest.mark.parametrize("start", ["pissa", "pissa_niter_4", "olora", "corda"])
def test_adapters_that_change_the_base_are_refused(bases: Callable[[str], Path], tmp_path: Path, start: str) -> None:
    import_model(bases("marian"), tmp_path / "out", PLAIN)
    write_adapter(tmp_path / "adapter", {"x.lora_A.weight": torch.zeros(4, 4)}, init_lora_weights=start)
    with pytest.raises(DataError, match=f"init_lora_weights: {start} changes the weights of the model.*merge"):
        read_stored_model(tmp_path / "out").with_adapter(tmp_path / "adapter")


def fp8(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    save_file({name: tensor.to(torch.float8_e4m3fn) for name, tensor in state.items()}, folder / "model.safetensors")


def files(*names: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "config.json").unlink()
        for name in names:
            (folder / name).write_bytes(b"x")

    return change


def unknown_step(folder: Path) -> None:
    without(SPM)(folder)
    set_keys("tokenizer.json", normalizer={"type": "Lowercase"})(folder)


def some_merges(folder: Path) -> None:
    """A tokenizer that merges only some pairs of pieces whose concatenation is a piece."""
    without(SPM)(folder)
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    results = ["".join(each) for each in model["merges"]]
    repeated = next(number for number, text in enumerate(results) if text in results[:number])
    del model["merges"][repeated]
    set_keys("tokenizer.json", model=model)(folder)


REFUSED: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "fp8": ("marian", fp8, "is of type F8_E4M3, which is not read; save it as F32 or BF16"),
    "quantised": (
        "marian",
        set_keys("config.json", quantization_config={"quant_method": "fp8"}),
        "quantization_config: the weights are 'fp8'; import the model that was quantised",
    ),
    "Firefox": (
        "marian",
        files("model.ende.intgemm.alphas.bin", "lex.50.50.ende.s2t.bin"),
        r"Firefox .*Marian's \.npz",
    ),
    "fairseq": ("marian", files("checkpoint_best.pt", "dict.en.txt"), "fairseq .*layout of Hugging Face"),
    "CTranslate2": ("marian", files("model.bin"), "CTranslate2.*import the model that was converted"),
    "a gelu of another kind": (
        "t5",
        set_keys("config.json", feed_forward_proj="quick_gelu", dense_act_fn=None),
        "feed_forward_proj: 'quick_gelu'; mtkit has relu",
    ),
    "another normaliser": ("nllb", unknown_step, "Lowercase, a step before the segmentation, is not read; copy the"),
    "some merges": ("nllb", some_merges, r"model: merges without the pair"),
    "a language that MADLAD lacks": (
        "madlad",
        set_keys("tokenizer_config.json", target_lang="xx"),
        "has no language 'xx'",
    ),
    "a token inside words": (
        "marian",
        set_keys("tokenizer_config.json", added_tokens_decoder={"900": {"content": "x", "single_word": True}}),
        r"tokenizer_config\.json: added_tokens_decoder: 'x' has single_word, which mtkit does not compute",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_computed_is_refused_in_a_sentence(bases: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    base, change, message = REFUSED[name]
    folder = bases(base)
    change(folder)
    languages = {"nllb": NLLB, "madlad": Languages("en", None)}.get(base, PLAIN)
    with pytest.raises(MtkitError, match=message) as caught:
        import_model(folder, tmp_path / "out", languages)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "changes", "named"),
    [
        ("config.json", {"softcap": 3.0}, "softcap: 3.0 has no effect"),
        ("tokenizer_config.json", {"do_lower_case": True}, "tokenizer_config.json: do_lower_case: True has no effect"),
        ("generation_config.json", {"dola_layers": "low"}, "dola_layers: 'low' has no effect"),
    ],
)
def test_an_unknown_key_is_named(
    bases: Callable[[str], Path], tmp_path: Path, name: str, changes: dict[str, Any], named: str
) -> None:
    folder = bases("marian")
    before = import_model(folder, tmp_path / "out", PLAIN)[2:]
    set_keys(name, **changes)(folder)
    (note,) = [each for each in import_model(folder, tmp_path / "out", PLAIN)[2:] if each not in before]
    assert note.startswith(named)
