"""Import of Marian models: equal logits, the files that are written, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mtkit.compression.compress import CompressionOptions, compress_model
from mtkit.errors import DataError, MtkitError, UsageError
from mtkit.importers.foreign_folder import Fields
from mtkit.importers.generation import search_config
from mtkit.importers.import_model import Languages, import_model
from mtkit.io.files import hash_file
from mtkit.model_folder.config_file import WEIGHTS
from mtkit.model_folder.folder import read_metadata, read_model
from mtkit.text.vocab import SPECIAL_TOKENS, Vocab
from mtkit.translate.engine import NativeEngine
from mtkit.translate.load import load_translator
from mtkit.translate.translation import TranslationOptions
from tests.toy.foreign_models import lines, train_pieces

NO_LANGUAGES = Languages()


@torch.inference_mode()
def test_logits_are_those_of_transformers(folder: Path, tmp_path: Path) -> None:
    import transformers

    import_model(folder, tmp_path / "out", NO_LANGUAGES)
    theirs, ours = transformers.MarianMTModel.from_pretrained(folder).eval(), read_model(tmp_path / "out")
    source = ours.tokenizers.encode("src", [lines("test.en", 1)[0]])[0] + [ours.tokenizers.src.vocab.eos]
    start = ours.tokenizers.tgt.vocab.bos
    decoded = [start, 5, 9, 300, 7]
    expected = theirs(torch.tensor([source]), decoder_input_ids=torch.tensor([decoded])).logits[0]  # [T, V]
    state = ours.model.start(ours_source(source))
    for position, token in enumerate(decoded):
        step = ours.model.step(torch.tensor([token]), state)
        state, logits = step.state, step.logits()[0]
        torch.testing.assert_close(logits[: -len(SPECIAL_TOKENS)], expected[position], rtol=0, atol=1e-5)
        assert logits.softmax(-1)[-len(SPECIAL_TOKENS) :].sum() == 0


def ours_source(ids: list[int]) -> Any:
    from mtkit.corpus.order.batch import Source

    pos = torch.arange(len(ids)).unsqueeze(0)
    return Source(torch.tensor([ids]), torch.ones_like(pos, dtype=torch.bool), pos)


def test_a_pickle_gives_the_same_model(folder: Path, tmp_path: Path) -> None:
    import_model(folder, tmp_path / "out", NO_LANGUAGES)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    import_model(folder, tmp_path / "again", NO_LANGUAGES)
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (
        tmp_path / "again" / "model.safetensors"
    ).read_bytes()


def test_weights_in_several_files_are_joined(folder: Path, tmp_path: Path) -> None:
    import_model(folder, tmp_path / "out", NO_LANGUAGES)
    state = load_file(folder / "model.safetensors")
    parts = {name: f"model-{number % 2}.safetensors" for number, name in enumerate(state)}
    for part in set(parts.values()):
        save_file({name: tensor for name, tensor in state.items() if parts[name] == part}, folder / part)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    (folder / "model.safetensors").unlink()
    import_model(folder, tmp_path / "again", NO_LANGUAGES)
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (
        tmp_path / "again" / "model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("storage", ["bf16", "int8", "int4"])
def test_weights_are_stored_as_compress_does(folder: Path, tmp_path: Path, storage: Any) -> None:
    import_model(folder, tmp_path / "small", Languages(), storage)
    import_model(folder, tmp_path / "whole", Languages())
    compress_model(tmp_path / "whole", tmp_path / "compressed", CompressionOptions(to=storage))
    assert hash_file(tmp_path / "small" / WEIGHTS) == hash_file(tmp_path / "compressed" / WEIGHTS)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32(folder: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    path = folder / "model.safetensors"
    state = {name: tensor.to(dtype) for name, tensor in load_file(path).items()}
    save_file(state, path)
    import_model(folder, tmp_path / "out", NO_LANGUAGES)
    table = load_file(tmp_path / "out" / "model.safetensors")["src_embedding.table.weight"]
    assert torch.equal(table[: -len(SPECIAL_TOKENS)], state["model.shared.weight"].float())


def test_the_folder_is_translated_on_the_fast_road(folder: Path, tmp_path: Path) -> None:
    import_model(folder, tmp_path / "out", NO_LANGUAGES)
    translator = load_translator(tmp_path / "out", search_overrides=["max_length.offset=5"])
    assert isinstance(translator.engine, NativeEngine)
    assert len(translator.translate_lines(["A dog.", ""])) == 2


def test_languages_come_from_settings_name_or_options(folder: Path, tmp_path: Path) -> None:
    def languages(given: Languages) -> tuple[str, str]:
        import_model(folder, tmp_path / "out", given)
        metadata = read_metadata(tmp_path / "out")
        return metadata.src_lang, metadata.tgt_lang

    assert languages(Languages("fr", "it")) == ("fr", "it")
    (folder / "tokenizer_config.json").unlink()
    assert languages(NO_LANGUAGES) == ("en", "de")
    moved = folder.rename(folder.with_name("model"))
    with pytest.raises(UsageError, match="--src-lang and --tgt-lang"):
        import_model(moved, tmp_path / "out", NO_LANGUAGES)


def test_settings_of_generation_become_the_search(folder: Path, tmp_path: Path) -> None:
    pad = json.loads((folder / "config.json").read_text())["pad_token_id"]
    settings = {
        "num_beams": 6,
        "length_penalty": 0.5,
        "early_stopping": "never",
        "max_length": 100,
        "min_length": 3,
        "no_repeat_ngram_size": 3,
        "bad_words_ids": [[pad], [1], [17], [5, 6]],
        "do_sample": True,
        "repetition_penalty": 0.8,
        "num_beam_groups": 1,
        "encoder_no_repeat_ngram_size": 3,
    }
    (folder / "generation_config.json").write_text(json.dumps(settings))
    notes = import_model(folder, tmp_path / "out", NO_LANGUAGES)
    search = read_metadata(tmp_path / "out").search
    assert (search.beam_size, search.length_penalty, search.early_stopping, search.patience) == (6, 0.5, True, 1e6)
    assert (search.max_length.of(50), search.min_length.of(50), search.no_repeat_ngram) == (98, 2, 3)
    assert not search.allow_unknown
    assert 17 in load_translator(tmp_path / "out").special_ids.banned
    left_out = ["bad_words_ids", "repetition_penalty", "do_sample", "encoder_no_repeat_ngram_size"]
    assert [note.partition(":")[0] for note in notes[2:]] == left_out
    assert "sequences of several tokens" in notes[2]


@pytest.mark.parametrize(
    ("settings", "longest", "shortest"),
    [
        ({"max_new_tokens": 64}, 63, 0),
        ({"max_new_tokens": 64, "max_length": 20}, 63, 0),
        ({"max_length": 20, "min_length": 4}, 18, 3),
        ({"max_length": 20, "min_length": 4, "min_new_tokens": 7}, 18, 7),
        ({}, 18, 0),
    ],
)
def test_limits_of_length_are_those_that_transformers_applies(
    folder: Path, tmp_path: Path, settings: dict[str, int], longest: int, shortest: int
) -> None:
    (folder / "generation_config.json").write_text(json.dumps(settings))
    notes = import_model(folder, tmp_path / "out", NO_LANGUAGES)
    search = read_metadata(tmp_path / "out").search
    assert (search.max_length.of(50), search.min_length.of(50)) == (longest, shortest)
    assert [note.partition(":")[0] for note in notes[2:]] == ([] if settings else ["max_length"])


@pytest.mark.parametrize("side", [{"before": [], "languages": {"de": 48}}, {"before": [48], "languages": {}}])
@pytest.mark.parametrize(
    ("settings", "limits"),
    [({"max_length": 20, "min_length": 4}, (17, 2)), ({"max_new_tokens": 64, "min_new_tokens": 7}, (62, 6))],
)
def test_the_token_of_a_language_is_no_part_of_the_length(
    tmp_path: Path, side: dict[str, Any], settings: dict[str, int], limits: tuple[int, int]
) -> None:
    tgt: Any = SimpleNamespace(vocab=Vocab(size=50, pad=49, unk=1, bos=49, eos=0), **side)
    model, generation = Fields(tmp_path / "config.json", {}), Fields(tmp_path / "generation_config.json", settings)
    search, _ = search_config(model, generation, tgt, has_output_bias=True)
    assert (search.max_length.of(50), search.min_length.of(50)) == limits


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_every_setting_of_generation_is_read_without_effect_or_named(folder: Path, count: int) -> None:
    import transformers

    unknown = {f"later_setting_{number}": number for number in range(count)}
    known = {key: 3 for key in transformers.GenerationConfig().to_dict() if key != "transformers_version"}
    fields = Fields(folder / "config.json", {})
    tgt: Any = SimpleNamespace(vocab=Vocab(size=50, pad=49, unk=1, bos=49, eos=0), before=[], languages={})

    def named(**settings: Any) -> list[str]:
        table = Fields(folder / "generation_config.json", {"max_length": 9, **settings})
        return [note.partition(":")[0] for note in search_config(fields, table, tgt, has_output_bias=True)[1]]

    assert named() == []
    assert named(**unknown) == list(unknown)
    effective = {"num_beam_groups", "stop_strings", "guidance_scale", "suppress_tokens", "max_time", "eos_token_id"}
    read = {"num_beams", "length_penalty", "max_new_tokens", "min_length", "min_new_tokens", "no_repeat_ngram_size"}
    for key, value in known.items():
        try:
            found = named(**{key: value})
        except DataError as error:  # it is read, and 3 is of another type
            found = [key] if key in str(error) else [str(error)]
        assert not (key in effective and found != [key]), key
        assert not (key in read and found), key
        assert set(found) <= {key}
        assert named(**{key: None}) == (["max_length"] if key == "max_length" else [])


@pytest.mark.whole
@torch.inference_mode()
def test_scores_are_those_among_the_tokens_that_may_be_generated(folder: Path, tmp_path: Path) -> None:
    import transformers

    state = load_file(folder / "model.safetensors")
    pad = json.loads((folder / "config.json").read_text())["pad_token_id"]
    state["final_logits_bias"][0, pad] += 10
    save_file(state, folder / "model.safetensors")
    settings = {
        "num_beams": 3,
        "max_length": 40,
        "bad_words_ids": [[pad]],
        "renormalize_logits": True,
        "early_stopping": True,
    }
    (folder / "generation_config.json").write_text(json.dumps(settings))
    assert len(import_model(folder, tmp_path / "out", NO_LANGUAGES)) == 2
    options = TranslationOptions(with_scores=True)
    ours = list(
        load_translator(tmp_path / "out", compute_type="float32", options=options).translate(lines("test.en", 8))
    )
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    model.generation_config.decoder_start_token_id = pad
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    for line, translation in zip(lines("test.en", 8), ours, strict=True):
        found = model.generate(**tokenizer(line, return_tensors="pt"), output_scores=True, return_dict_in_generate=True)
        if found.sequences.shape[1] < 40:  # at the maximum length the end costs nothing there
            assert translation.score == pytest.approx(float(found.sequences_scores[0]), abs=1e-4)
            assert translation.text == tokenizer.decode(found.sequences[0], skip_special_tokens=True)


Change = Callable[[Path], None]


def set_key(name: str, **changes: Any) -> Change:
    def change(folder: Path) -> None:
        values = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**values, **changes}))

    return change


def change_weights(edit: Callable[[dict[str, torch.Tensor]], Any]) -> Change:
    def change(folder: Path) -> None:
        state = load_file(folder / "model.safetensors")
        edit(state)
        save_file(state, folder / "model.safetensors")

    return change


def cut(name: str, share: float) -> Change:
    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * share)])

    return change


def remove(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def write(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content) and None


def other_pieces(folder: Path) -> None:
    """The tokenizer of a model of other languages, with as many pieces."""
    texts = [
        "".join(chr(0x5D0 + ord(each) % 27) if each != " " else " " for each in line) for line in lines("train.en", 400)
    ]
    train_pieces(texts, folder / "other", 200)
    (folder / "other.model").rename(folder / "source.spm")


def add_code(folder: Path) -> None:
    class Code:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(folder / "run"),)

    torch.save({"model.shared.weight": Code()}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


BAD: dict[str, tuple[Change, str]] = {
    "a pickle with code": (add_code, r"pytorch_model\.bin: its pickle would run posix\.mkdir; nothing of it was run"),
    "no weights": (remove("model.safetensors"), r"has neither model\.safetensors nor pytorch_model\.bin"),
    "weights cut off": (cut("model.safetensors", 0.9), r"model\.safetensors: damaged, cut off"),
    "weights that are a zip": (write("model.safetensors", "PK" + 100 * "x"), r"model\.safetensors: damaged"),
    "no config": (remove("config.json"), r"config\.json: no such file"),
    "config cut off": (cut("config.json", 0.5), r"config\.json: damaged, cut off, or no JSON"),
    "config is a list": (write("config.json", "[1]"), "a table is expected"),
    "another architecture": (
        set_key("config.json", model_type="bert"),
        r"model_type: 'bert'; mtkit imports marian \(Marian",
    ),
    "no architecture": (set_key("config.json", model_type=["marian"]), r"model_type: \['marian'\]; mtkit imports"),
    "an activation": (
        set_key("config.json", activation_function="quick_gelu"),
        "activation_function: 'quick_gelu'; mtkit has",
    ),
    "more layers": (set_key("config.json", encoder_layers=3), r"the weights have no model\.encoder\.layers\.2"),
    "fewer layers": (set_key("config.json", decoder_layers=1), r"model\.decoder\.layers\.1\..* no weight of marian"),
    "another width": (set_key("config.json", d_model=64), "of different models"),
    "a width of text": (set_key("config.json", d_model="64"), "d_model: '64'; int is expected"),
    "a billion layers": (set_key("config.json", decoder_layers=10**9), "decoder_layers: 1000000000; at most 1,000 is"),
    "a vocabulary of 30 digits": (
        set_key("config.json", vocab_size=10**29),
        "vocab_size: 1000.*; at most 10,000,000 is",
    ),
    "no heads": (set_key("config.json", encoder_attention_heads=0), "a number above 0 is expected"),
    "heads that do not divide": (
        set_key("config.json", encoder_attention_heads=5, decoder_attention_heads=5),
        "does not divide",
    ),
    "untied": (
        set_key("config.json", tie_word_embeddings=False),
        "tie_word_embeddings: False; mtkit imports models with",
    ),
    "padding outside": (set_key("config.json", pad_token_id=99999), "pad_token_id: 99999; the id of one of the"),
    "a tensor too many": (
        change_weights(lambda state: state.update(adapter=torch.zeros(3))),
        "adapter .* no weight of marian",
    ),
    "a tensor too few": (change_weights(lambda state: state.pop("model.decoder.layers.1.fc1.bias")), "have no .*fc1"),
    "not finite": (
        change_weights(lambda state: state["model.shared.weight"].fill_(float("nan"))),
        "contains NaN or infinity",
    ),
    "a short bias": (
        change_weights(lambda state: state.update(final_logits_bias=torch.zeros(1, 5))),
        "final_logits_bias has 5 numbers",
    ),
    "no source tokenizer": (remove("source.spm"), r"source\.spm: no such file"),
    "source tokenizer cut off": (cut("source.spm", 0.5), r"source\.spm: damaged, cut off"),
    "source tokenizer of text": (write("source.spm", "hello"), r"source\.spm: damaged"),
    "tokenizer of another model": (other_pieces, r"source\.spm: .*% of its pieces are in .*another model"),
    "vocabulary of another model": (write("vocab.json", '{"<unk>": 0, "</s>": 1}'), r"vocab\.json: has 2 tokens, but"),
    "vocabulary cut off": (cut("vocab.json", 0.5), r"vocab\.json: damaged"),
    "vocabulary with gaps": (set_key("vocab.json", gap=5000), r"vocab\.json: the ids of its"),
    "vocabulary of words": (set_key("vocab.json", word="five"), r"vocab\.json: the ids of its"),
    "a length penalty below 0": (set_key("generation_config.json", length_penalty=-1.0), "length_penalty: -1.0"),
    "beams of text": (set_key("generation_config.json", num_beams="four"), "num_beams: 'four'; int is expected"),
    "beams below 0": (set_key("generation_config.json", num_beams=-5), "num_beams: -5; a number above 0 is expected"),
    "too many beams": (set_key("generation_config.json", num_beams=5000), "search.beam_size: 5000"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_and_nothing_is_written(folder: Path, tmp_path: Path, name: str) -> None:
    change, message = BAD[name]
    change(folder)
    with pytest.raises(MtkitError, match=message) as caught:
        import_model(folder, tmp_path / "out" / "deep", NO_LANGUAGES)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    assert not (folder / "run").exists()


def test_no_folder_and_folders_of_mtkit_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MtkitError, match="no such folder"):
        import_model(tmp_path / "none", tmp_path / "out", NO_LANGUAGES)
    import_model(folder, tmp_path / "out", NO_LANGUAGES)
    with pytest.raises(UsageError, match="model folder of mtkit"):
        import_model(tmp_path / "out", tmp_path / "again", NO_LANGUAGES)
    with pytest.raises(UsageError, match="is not a model folder"):
        import_model(folder, folder, NO_LANGUAGES)
