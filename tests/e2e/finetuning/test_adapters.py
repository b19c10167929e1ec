"""Adapters: what is trained, their folder, their merging, several in one process, and refusals."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from mtkit.cli import entry
from mtkit.errors import DataError, MissingInputError, RecipeError, UsageError
from mtkit.inference.native_search import NativeModel
from mtkit.inference.packing import PackedProjection
from mtkit.layers.projections import LowRankProjection, linear, merge_low_rank
from mtkit.model_folder.adapter_folder import read_adapter
from mtkit.training.weights import weights
from mtkit.translate.engine import NativeEngine
from mtkit.translate.lines import ConstrainedLine
from mtkit.translate.load import AdaptedTranslators, TranslatorSpec, load_translator
from mtkit.translate.translation import TranslationOptions
from tests.toy.runs import run, sentences, toy, write_all

KINDS = {"lora": "{kind: lora, rank: 2}", "bias": "{kind: bias}", "norm": "{kind: norm}"}
KEYS = ["training.optimiser={kind: adam, learning_rate: 0.05}", "training.max_updates=8", "training.checkpoint_every=4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base model, and a run for each kind of adapter beside it."""
    folder = tmp_path_factory.mktemp("adapters")
    write_all(folder)
    run(folder)
    (folder / "run").rename(folder / "base")
    for kind, adapter in KINDS.items():
        run(folder, f"training.init_from={folder / 'base'}", f"training.adapter={adapter}", *KEYS)
        (folder / "run").rename(folder / kind)
    return folder


def model_weights(path: Path) -> dict[str, np.ndarray]:
    return load_file(path / "model" / "model.safetensors")


@pytest.mark.whole
def test_lora_is_merged_and_changes_projections_alone(folder: Path) -> None:
    base, tuned = model_weights(folder / "base"), model_weights(folder / "lora")
    adapter = load_file(folder / "lora" / "adapter" / "adapter_model.safetensors")
    config = json.loads((folder / "lora" / "adapter" / "adapter_config.json").read_text())
    assert base.keys() == tuned.keys()
    changed = {name for name in base if not np.array_equal(base[name], tuned[name])}
    assert changed == {f"{module}.weight" for module in config["target_modules"]}
    assert len(changed) == 11  # 4 in the layer of the encoder, 7 in that of the decoder
    for module in config["target_modules"]:
        down, up = (adapter[f"base_model.model.{module}.lora_{side}.weight"] for side in "AB")
        assert down.shape[0] == up.shape[1] == 2
        expected = base[f"{module}.weight"] + 16 / 2 * up @ down
        np.testing.assert_allclose(tuned[f"{module}.weight"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.whole
@pytest.mark.parametrize(("kind", "ends"), [("bias", ("bias",)), ("norm", ("norm.weight", "norm.bias"))])
def test_other_kinds_train_what_they_name(folder: Path, kind: str, ends: tuple[str, ...]) -> None:
    base, tuned = model_weights(folder / "base"), model_weights(folder / kind)
    changed = {name for name in base if not np.array_equal(base[name], tuned[name])}
    assert changed
    assert all(name.endswith(ends) for name in changed), changed


@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
def test_base_and_adapter_are_the_tuned_model(folder: Path, kind: str, capsys) -> None:
    outputs = []
    for words in ([folder / kind], [folder / "base", "--adapter", folder / kind / "adapter"], [folder / "base"]):
        assert entry.execute(["translate", *map(str, words), str(folder / "test.en"), "--compute-type", "float32"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
def test_resumed_adapters_end_with_the_same_bits(folder: Path, kind: str, tmp_path: Path) -> None:
    files = ("model/model.safetensors", "adapter/adapter_model.safetensors")
    expected = [(folder / kind / file).read_bytes() for file in files]
    shutil.copytree(folder / kind, folder / "run")
    for each in ("model", "adapter", "checkpoints/update-00000008"):
        shutil.rmtree(folder / "run" / each)
    run(folder, f"training.init_from={folder / 'base'}", f"training.adapter={KINDS[kind]}", *KEYS)
    assert [(folder / "run" / file).read_bytes() for file in files] == expected
    checkpoint = folder / "run" / "checkpoints" / "update-00000008"
    trained = len(load_file(folder / kind / "adapter" / "adapter_model.safetensors"))
    assert len(load_file(checkpoint / "ema.safetensors")) == trained  # no average of what does not change
    shutil.rmtree(folder / "run")


def test_several_adapters_are_chosen_by_line(folder: Path) -> None:
    lines, names = sentences(9, 3), ["", "a", "b"] * 3
    requests = [ConstrainedLine(text=line, adapter=name) for line, name in zip(lines, names, strict=True)]
    alone = {
        name: load_translator(folder / path, compute_type="float32").translate_lines(lines)
        for name, path in {"": "base", "a": "lora", "b": "norm"}.items()
    }
    expected = [alone[name][index] for index, name in enumerate(names)]
    assert expected not in alone.values()
    for flush_every in (None, 4):
        options = TranslationOptions(flush_every=flush_every)
        spec = TranslatorSpec(models=[folder / "base"], compute_type="float32", options=options)
        pool = AdaptedTranslators(spec, {"a": folder / "lora" / "adapter", "b": folder / "norm" / "adapter"})
        translations = list(pool.translate(requests, first=5))
        assert [each.hyp for each in translations] == expected
        assert [each.line for each in translations] == list(range(5, 14))


def test_models_share_what_no_adapter_changes(folder: Path) -> None:
    spec = TranslatorSpec(models=[folder / "base"], compute_type="float32")
    pool = AdaptedTranslators(spec, {kind: folder / kind / "adapter" for kind in KINDS})
    names = ["", *KINDS]
    models = {name: cast("NativeEngine", pool[name].engine).model for name in names}
    panels = {name: {each.linear.panels for each in projections(models[name])} for name in names}
    assert panels["bias"] == panels["norm"] == panels[""]
    assert len(panels["lora"] - panels[""]) == 11  # the adapted ones; the output projection is another
    assert len(panels[""]) == 12
    assert len({id(each.pruned) for each in models.values()}) == 1
    assert len({id(each.tgt_table) for each in models.values()}) == 1
    assert len({id(pool[name].tokenizers) for name in names}) == 1


def projections(model: NativeModel) -> list[PackedProjection]:
    return [each for each in model._kept if isinstance(each, PackedProjection)]


def test_a_search_that_runs_as_written_has_the_adapter_too(folder: Path) -> None:
    word = load_translator(folder / "base").translate_lines(sentences(1, 3))[0].split()[-1]
    lines = [ConstrainedLine(text=line, include=(word,)) for line in sentences(6, 3)]
    adapter = folder / "lora" / "adapter"
    adapted, merged, base = (
        load_translator(folder / name, adapter=each, compute_type="float32").translate_lines(lines)
        for name, each in (("base", adapter), ("lora", None), ("base", None))
    )
    assert adapted == merged != base


def test_an_error_comes_after_all_lines_before_it_whatever_their_adapters(folder: Path) -> None:
    spec = TranslatorSpec(models=[folder / "base"], compute_type="float32")
    pool = AdaptedTranslators(spec, {"a": folder / "lora" / "adapter"})
    names = ["a", "", "a"]
    good = [ConstrainedLine(text=line, adapter=name) for line, name in zip(sentences(3, 3), names, strict=True)]
    contradiction = ConstrainedLine(text="x", include=("a",), exclude=("a",))
    for bad, message in (
        (ConstrainedLine(text="x", adapter="c"), "line 4: adapter 'c': unknown; the adapters are a"),
        (contradiction, "line 4: 'a' must appear but contains 'a'"),
        (replace(contradiction, adapter="a"), "line 4: 'a' must appear but contains 'a'"),
    ):
        done: list[int] = []
        with pytest.raises(DataError, match=message):
            done.extend(each.line for each in pool.translate([*good, bad, *good]))
        assert done == [1, 2, 3]
    with pytest.raises(DataError, match="line 1: adapter 'a': unknown; name its folder by --adapter"):
        spec.load().translate_lines(good)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_json_lines_name_their_adapters(folder: Path, workers: str, tmp_path: Path, capsys) -> None:
    lines, fields = sentences(6, 3), [{}, {"adapter": "x"}, {"adapter": ""}] * 2
    records = [{"text": line, **more} for line, more in zip(lines, fields, strict=True)]
    file = tmp_path / "in.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))

    def hyps(*words: object) -> list[str]:
        words = ("translate", folder / "base", *words, "--compute-type", "float32")
        assert entry.execute([str(word) for word in words]) == 0
        return [json.loads(line)["hyp"] for line in capsys.readouterr().out.splitlines()]

    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    norm, lora = folder / "norm" / "adapter", folder / "lora" / "adapter"
    whole, named = (hyps(tmp_path / "in", "--jsonl", "--adapter", adapter) for adapter in (norm, lora))
    both = hyps(file, "--jsonl-input", "--adapter", f"x={lora}", "--adapter", norm, "--workers", workers)
    assert whole != named
    assert both == [(named if index % 3 == 1 else whole)[index] for index in range(6)]


def test_adapters_of_lines_are_refused(folder: Path, tmp_path: Path, capsys) -> None:
    file, adapter = tmp_path / "in.jsonl", folder / "lora" / "adapter"
    for words, record, code, message in (
        (["--adapter", f"a={adapter}"], {"adapter": "b"}, 65, "line 1: adapter 'b': unknown; the adapters are a"),
        (["--adapter", f"a={adapter}"], {"adapter": 3}, 65, "in.jsonl:1: adapter must be a string"),
        (["--adapter", str(adapter)], {"adapter": "b"}, 65, "line 1: adapter 'b': unknown; name its folder by"),
        (["--adapter", f"a={adapter}"] * 2, {}, 2, "two adapters are named a; give each"),
        (["--adapter", str(adapter)] * 2, {}, 2, "two adapters have no name; give each"),
        (["--adapter", f"={adapter}"], {}, 2, "the form is FOLDER or NAME=FOLDER"),
        (["--adapter", "a=./none"], {}, 66, "none/adapter_config.json: no such file"),
        (["--adapter", "./a=none"], {}, 66, "a=none/adapter_config.json: no such file"),
    ):
        file.write_text(json.dumps({"text": "a b", **record}) + "\n")
        assert entry.execute(["translate", str(folder / "base"), str(file), "--jsonl-input", *words]) == code
        captured = capsys.readouterr()
        assert message in captured.err
        assert captured.out == ""
    words = ["translate", str(folder / "bias"), str(file), "--jsonl-input", "--adapter", f"a={adapter}"]
    assert entry.execute(words) == 65
    assert "was trained on another model" in capsys.readouterr().err
    assert entry.execute([word for word in words if word != "--jsonl-input"]) == 2
    assert "add --jsonl-input" in capsys.readouterr().err


def test_a_low_rank_update_is_that_of_the_paper() -> None:
    torch.manual_seed(3)
    base = linear(6, 4)
    layer = LowRankProjection(base, rank=2, scale=0.5)
    x = torch.randn(5, 6)
    assert torch.equal(layer(x), base(x))
    torch.nn.init.normal_(layer.lora_B.weight)
    expected = x @ (base.weight + 0.5 * layer.lora_B.weight @ layer.lora_A.weight).T + base.bias
    torch.testing.assert_close(layer(x), expected)
    outer = torch.nn.ModuleDict({"a": layer})
    merged = merge_low_rank(weights(outer))
    torch.testing.assert_close(x @ merged["a.weight"].T + merged["a.bias"], expected)
    assert merged.keys() == {"a.weight", "a.bias"}


def test_recipes_without_a_base_or_without_projections_are_refused(folder: Path) -> None:
    with pytest.raises(RecipeError, match=r"training.adapter: .*would stay random; set training.init_from"):
        run(folder, "training.adapter={kind: lora}")
    base = f"training.init_from={folder / 'base'}"
    with pytest.raises(RecipeError, match=r"training.adapter.kind: lora needs a Transformer; a model of kind rnn"):
        toy(folder, base, "training.adapter={kind: lora}", kind="rnn")
    with pytest.raises(RecipeError, match=r"training.adapter.layers: no projection is in embeddings"):
        run(folder, base, "training.adapter={kind: lora, layers: [embeddings]}")
    with pytest.raises(RecipeError, match=r"training.adapter.layers.0: decodr: no part of this model; did you mean"):
        run(folder, base, "training.adapter={kind: lora, layers: [decodr]}")


def test_foreign_and_damaged_adapters_are_refused(folder: Path, tmp_path: Path) -> None:
    def changed(name: str, **keys: object) -> Path:
        copy = tmp_path / name
        shutil.copytree(folder / "lora" / "adapter", copy)
        path = copy / "adapter_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))
        return copy

    def load(adapter: Path, base: str = "base") -> None:
        load_translator(folder / base, adapter=adapter)

    with pytest.raises(DataError, match="was trained on another model; give the model that it was made from"):
        load(folder / "lora" / "adapter", "bias")
    for name, keys, message in (
        ("dora", {"use_dora": True}, "use_dora: True is not read"),
        ("ia3", {"peft_type": "IA3"}, "peft_type 'IA3' is not read, but LORA, LN_TUNING and MTKIT_BIAS; merge it"),
        ("rank", {"r": 0}, "r and lora_alpha must be numbers above 0"),
    ):
        with pytest.raises(DataError, match=message):
            load(changed(name, **keys))
    with pytest.raises(MissingInputError, match=r"an adapter is a folder with adapter_config\.json"):
        load(tmp_path)
    cut = changed("cut") / "adapter_model.safetensors"
    cut.write_bytes(cut.read_bytes()[:-4])
    with pytest.raises(DataError, match="damaged, or no adapter"):
        load(cut.parent)
    other = changed("other", base_model_name_or_path=None) / "adapter_model.safetensors"
    save_file({name: tensor for name, tensor in load_file(other).items() if "lora_A" in name}, other)
    with pytest.raises(DataError, match="has no pair of lora_A and lora_B of one rank"):
        load(other.parent)
    tensors = load_file(folder / "lora" / "adapter" / "adapter_model.safetensors")
    save_file({name.replace("encoder", "elsewhere"): each for name, each in tensors.items()}, other)
    with pytest.raises(DataError, match=r"elsewhere.*is not in the model; it was trained on another model"):
        load(other.parent)
    with pytest.raises(UsageError, match="belongs to one model, and an ensemble has several"):
        load_translator([folder / "base", folder / "bias"], adapter=folder / "lora" / "adapter")
    assert read_adapter(folder / "norm" / "adapter").fields["peft_type"] == "LN_TUNING"


UNREAD_KEYS = {
    "use_dora": True, "use_bdlora": {"blocks": 2}, "use_qalora": True, "velora_config": {"rank": 1}, "bias": "all",
    "modules_to_save": ["embedding"], "alpha_pattern": {"o.*t": 2}, "fan_in_fan_out": True,
    "target_parameters": ["w"], "trainable_token_indices": [1], "layer_replication": [[0, 1]], "kasa_config": {"a": 1},
    "alora_invocation_tokens": [1], "arrow_config": {"a": 1}, "init_lora_weights": "pissa", "a_key_of_tomorrow": 7,
    "monteclora_config": {"a": 1}, "loftq_config": {"bits": 4}, "corda_config": {"a": 1},
}  # fmt: skip
EMPTY_KEYS = {
    "alora_invocation_tokens": None, "kasa_config": None, "loftq_config": {}, "use_bdlora": None, "use_dora": False,
    "a_key_of_tomorrow": None, "init_lora_weights": True, "peft_version": "0.21.2", "qalora_group_size": 16,
}  # fmt: skip


def changed_adapter(folder: Path, output: Path, fields: dict, tensors: dict[str, np.ndarray]) -> Path:
    """The LoRA adapter with further fields and tensors."""
    shutil.copytree(folder / "lora" / "adapter", output)
    config = json.loads((output / "adapter_config.json").read_text())
    (output / "adapter_config.json").write_text(json.dumps(config | fields))
    file = output / "adapter_model.safetensors"
    save_file(load_file(file) | tensors, file)
    return output


@pytest.mark.parametrize("key", UNREAD_KEYS)
def test_keys_of_other_programs_are_computed_or_named(folder: Path, key: str, tmp_path: Path) -> None:
    adapter = changed_adapter(folder, tmp_path / "adapter", EMPTY_KEYS | {key: UNREAD_KEYS[key]}, {})
    messages = "(.* is not read; merge it|pissa changes the weights of the model)"
    with pytest.raises(DataError, match=f"{key}: {messages}"):
        read_adapter(adapter)


@pytest.mark.parametrize("name", ["lora_magnitude_vector", "lora_A.bias", "lora_embedding_A", "weight"])
def test_tensors_of_other_programs_are_named(folder: Path, name: str, tmp_path: Path) -> None:
    (module, *_) = json.loads((folder / "lora" / "adapter" / "adapter_config.json").read_text())["target_modules"]
    tensor = {f"base_model.model.{module}.{name}": np.zeros(3, np.float32)}
    adapter = read_adapter(changed_adapter(folder, tmp_path / "adapter", EMPTY_KEYS, tensor))
    with pytest.raises(DataError, match=f"{name} is not read"):
        adapter.applied(model_weights(folder / "base"))


def test_biases_of_low_rank_are_scaled_and_added(folder: Path, tmp_path: Path) -> None:
    base = model_weights(folder / "base")
    config = json.loads((folder / "lora" / "adapter" / "adapter_config.json").read_text())
    module = next(module for module in config["target_modules"] if f"{module}.bias" in base)
    bias = np.arange(len(base[f"{module}.bias"]), dtype=np.float32)
    tensor = {f"base_model.model.{module}.lora_B.bias": bias}
    adapter = read_adapter(changed_adapter(folder, tmp_path / "adapter", {"lora_bias": True}, tensor))
    plain = read_adapter(folder / "lora" / "adapter").applied(base)
    merged = adapter.applied(base)
    scale = config["lora_alpha"] / config["r"]
    np.testing.assert_allclose(merged[f"{module}.bias"], base[f"{module}.bias"] + scale * bias, rtol=1e-6)
    assert all(np.array_equal(merged[name], plain[name]) for name in base if name != f"{module}.bias")
