"""`mtkit export --to ctranslate2`: supported models translate equally in both engines; others are refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mtkit.assembly import translator as build_translator
from mtkit.cli import entry
from mtkit.export import equivalence
from mtkit.layers.attention.linformer import LinformerConfig
from mtkit.layers.attention.performer import PerformerConfig
from mtkit.layers.feed_forward.dense import DenseConfig
from mtkit.layers.feed_forward.gated import GatedConfig
from mtkit.layers.feed_forward.mixture_of_experts import MixtureOfExpertsConfig
from mtkit.layers.norms.deepnorm import DeepNormConfig
from mtkit.layers.norms.norm import RMSNormConfig
from mtkit.layers.norms.residual import PostNormConfig, PreNormConfig
from mtkit.layers.norms.sandwich import SandwichNormConfig
from mtkit.layers.positions.alibi import ALiBiConfig
from mtkit.layers.positions.base import NoPositionConfig
from mtkit.layers.positions.deberta import DeBERTaConfig
from mtkit.layers.positions.learned import LearnedConfig
from mtkit.layers.positions.rope import LinearScaling, NTKScaling, RoPEConfig
from mtkit.layers.positions.shaw import ShawConfig
from mtkit.layers.positions.t5 import T5BiasConfig
from mtkit.layers.positions.transformer_xl import TransformerXLConfig
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.sharing import AllSharedConfig

pytest.importorskip("ctranslate2")
Make = Callable[[Any], Path]


def transformer(**keys: Any) -> TransformerConfig:
    sizes = {"d_model": 16, "d_ff": 24, "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2}
    return TransformerConfig(**(sizes | keys))


def both(positions: Any) -> dict[str, Any]:
    return {"encoder_positions": positions, "decoder_positions": positions}


RMS = RMSNormConfig()
SUPPORTED = {
    "defaults": {},
    "post-norm": {"residual": PostNormConfig()},
    "rms": {"residual": PreNormConfig(norm=RMS)},
    "post-norm rms": {"residual": PostNormConfig(norm=RMS)},
    "sandwich": {"residual": SandwichNormConfig()},
    "deep": {"residual": DeepNormConfig()},
    "multi-query": {"num_kv_heads": 1},
    "grouped-query": {"num_kv_heads": 2},
    "head_dim": {"head_dim": 6},
    "gelu": {"feed_forward": DenseConfig(activation="gelu")},
    "silu": {"feed_forward": DenseConfig(activation="silu")},
    "gated": {"feed_forward": GatedConfig()},
    "gated with bias": {"feed_forward": GatedConfig(bias=True, activation="gelu")},
    "learned": both(LearnedConfig(max_length=80)),
    "stretched": both(LearnedConfig(max_length=50, interpolation_factor=2.0)),
    "no positions": both(NoPositionConfig()),
    "rope": both(RoPEConfig()),
    "rope in halves": both(RoPEConfig(rotate_half=True)),
    "rope linear": both(RoPEConfig(scaling=LinearScaling())),
    "rope ntk": both(RoPEConfig(scaling=NTKScaling(factor=4.0))),
    "rope multi-query": {**both(RoPEConfig()), "num_kv_heads": 1},
    "rope encoder": {"encoder_positions": RoPEConfig()},
    "shaw": both(ShawConfig(max_distance=4)),
    "shaw grouped": {**both(ShawConfig(max_distance=4)), "num_kv_heads": 2},
    "t5": both(T5BiasConfig(num_buckets=8, max_distance=20)),
    "t5 grouped": {**both(T5BiasConfig(num_buckets=8, max_distance=20, scaled=True)), "num_kv_heads": 2},
    "alibi decoder": {"decoder_positions": ALiBiConfig()},
    "shared layers": {"encoder_sharing": AllSharedConfig(), "decoder_sharing": AllSharedConfig()},
    "untied": {"tied_embeddings": "none"},
}


def run_mtkit(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[list[str], str]:
    assert entry.execute(words) == code
    captured = capsys.readouterr()
    return captured.out.split("\n")[:-1], captured.err


@pytest.mark.parametrize("keys", SUPPORTED.values(), ids=SUPPORTED.keys())
def test_supported_models_translate_equally(keys: dict[str, Any], toy_model: Make, text: Path, capsys) -> None:
    model, folder = str(toy_model(transformer(**keys))), str(text.parent / "exported")
    out, err = run_mtkit(capsys, "export", model, "--to", "ctranslate2", "-o", folder, "--check", str(text))
    assert out == [folder]
    assert f"12 of 12 translations are equal (greedy, float32; {text})" in err
    options = [str(text), "--compute-type", "float32", "--jsonl", "--beam-size", "1", "--threads", "1"]
    ours, theirs = (
        [json.loads(line) for line in run_mtkit(capsys, "translate", path, *options)[0]] for path in (model, folder)
    )
    for own, other in zip(ours, theirs, strict=True):
        assert own["hyp"] == other["hyp"]
        assert own["log_prob"] == pytest.approx(other["log_prob"], abs=2e-4 * max(1, abs(own["log_prob"])))
        assert own["tokens"] == other["tokens"]
        assert own["flags"] == other["flags"]


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (Seq2SeqRNNConfig(d_model=8), "model.kind: rnn"),
        (transformer(encoder_positions=ALiBiConfig()), "model.encoder_positions.kind: alibi"),
        (transformer(decoder_positions=DeBERTaConfig()), "model.decoder_positions.kind: deberta"),
        (transformer(encoder_positions=TransformerXLConfig()), "model.encoder_positions.kind: transformer_xl"),
        (transformer(parallel_sublayers=True), "model.parallel_sublayers: True"),
        (transformer(qk_norm="rms"), "model.qk_norm: rms"),
        (transformer(feed_forward=MixtureOfExpertsConfig()), "model.feed_forward.kind: moe"),
        (transformer(encoder_attention=LinformerConfig()), "model.encoder_attention.kind: linformer"),
        (transformer(encoder_attention=PerformerConfig()), "model.encoder_attention.kind: performer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unsupported_keys_are_named(config: Any, key: str, toy_model: Make, tmp_path: Path, capsys) -> None:
    words = ["export", str(toy_model(config)), "--to", "ctranslate2", "-o", str(tmp_path / "exported")]
    out, err = run_mtkit(capsys, *words, code=2)
    assert out == []
    assert f"mtkit: error: {key}: " in err
    assert "CTranslate2 export" in err
    assert not (tmp_path / "exported").exists()


@pytest.fixture
def exported(toy_model: Make, tmp_path: Path, capsys) -> str:
    folder = str(tmp_path / "exported")
    out, err = run_mtkit(capsys, "export", str(toy_model(transformer())), "--to", "ctranslate2", "-o", folder)
    assert out == [folder]
    assert "100 of 100 translations are equal (greedy, float32; random tokens" in err
    return folder


def test_options_of_translate_with_an_exported_model(exported: str, text: Path, capsys) -> None:
    hyps, _ = run_mtkit(capsys, "translate", exported, str(text), "--beam-size", "3")
    assert [not hyp.strip() for hyp in hyps][-2:] == [True, True]
    out, _ = run_mtkit(
        capsys, "translate", exported, str(text), "--beam-size", "3", "--set", "search.n_best=2", "--jsonl"
    )
    records = [json.loads(line) for line in out]
    assert [each["hyp"] for each in records] == hyps
    assert all(len(each["nbest"]) == 2 and each["log_prob"] < 0 for each in records[:10])
    shorter, _ = run_mtkit(
        capsys, "translate", exported, str(text), "--set", "search.max_length={factor: 0, offset: 3}", "--jsonl"
    )
    assert all(len(json.loads(line)["tokens"]) <= 3 for line in shorter)
    sampling = "search.method={kind: sampling, num_samples: 3, top_k: 5}"
    assert len(run_mtkit(capsys, "translate", exported, str(text), "--set", sampling)[0]) == 12
    assert run_mtkit(capsys, "translate", exported, str(text), "--workers", "2", "--beam-size", "3")[0] == hyps


def test_each_sentence_has_its_own_limit(toy_model: Make, exported: str, text: Path, capsys) -> None:
    limit, options = "search.max_length={factor: 0.5, offset: 1}", ["--beam-size", "1", "--compute-type", "float32"]
    words = [str(text), "--set", limit, *options, "--jsonl"]
    peer, ours = (
        [json.loads(line) for line in run_mtkit(capsys, "translate", model, *words)[0]]
        for model in (exported, str(toy_model(transformer())))
    )
    assert len({len(each["tokens"]) for each in ours}) > 3  # limits cut in at different lengths
    assert [each["tokens"] for each in peer] == [each["tokens"] for each in ours]
    assert [each["log_prob"] for each in peer] == pytest.approx([each["log_prob"] for each in ours], abs=1e-3)


def test_sentences_longer_than_the_exported_positions_are_a_data_error(exported: str, text: Path, capsys) -> None:
    limits = [
        *("--set", "search.max_length={factor: 0, offset: 1500}"),
        *("--set", "search.min_length={factor: 0, offset: 1400}"),
    ]
    words = ["translate", exported, str(text), "--beam-size", "1", *limits]
    _, err = run_mtkit(capsys, *words, code=65)
    assert "a sentence is longer than the exported position table" in err
    assert "lower search.max_length" in err


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["--set", "search.length_penalty={kind: gnmt, alpha: 0.6}"], "search.length_penalty.kind"),
        (["--set", "search.coverage_penalty=0.2"], "search.coverage_penalty"),
        (["--set", "search.method={kind: diverse, groups: 2}", "--set", "search.beam_size=4"], "search.method.kind"),
        (["--shortlist"], "an exported model works only on the CPU"),
        (["--device", "cuda"], "an exported model works only on the CPU"),
        (["--compute-type", "bf16"], "CTranslate2 does not support compute type bfloat16 on this machine"),
    ],
)
def test_unsupported_options_are_named(exported: str, text: Path, words: list[str], key: str, capsys) -> None:
    if "bf16" in words and "bfloat16" in pytest.importorskip("ctranslate2").get_supported_compute_types("cpu"):
        pytest.skip("this processor has it")
    _, err = run_mtkit(capsys, "translate", exported, str(text), *words, code=2)
    assert f"mtkit: error: {key}" in err.replace(f"{exported}: ", "")
    assert err.count("\n") == 1


def test_errors(toy_model: Make, exported: str, tmp_path: Path, text: Path, capsys, monkeypatch) -> None:
    model = str(toy_model(transformer()))
    command = ["export", model, "--to", "ctranslate2", "-o"]
    assert "exists and is not an exported model of mtkit" in run_mtkit(capsys, *command, str(tmp_path), code=2)[1]
    (tmp_path / "empty").touch()
    words = [*command, str(tmp_path / "new"), "--check", str(tmp_path / "empty")]
    assert "empty: has no lines to translate" in run_mtkit(capsys, *words, code=65)[1]
    assert (
        "an exported model, which only mtkit translate"
        in run_mtkit(capsys, "score", exported, "--src", str(text), "--ref", str(text), code=2)[1]
    )
    (tmp_path / "exported" / "model.bin").write_bytes(b"nonsense")
    _, err = run_mtkit(capsys, "translate", exported, str(text), code=65)
    assert "exported: damaged: model.bin not as written; export the model again" in err
    translations = iter([["a"] * 12, ["a"] * 11 + ["b"]])
    monkeypatch.setattr(equivalence, "_translate", lambda *_: next(translations))
    _, err = run_mtkit(capsys, *command, str(tmp_path / "new"), "--check", str(text), code=65)
    assert "the exported model translates differently: 11 of 12 translations are equal" in err
    assert not (tmp_path / "new").exists()


def test_every_file_of_an_exported_model_is_checked(exported: str, text: Path, capsys) -> None:
    rng = random.Random(1)
    for path in sorted(Path(exported).iterdir()):
        whole = path.read_bytes()
        # the last flip makes invalid UTF-8 of most bytes of JSON, which CTranslate2 reports as a UnicodeDecodeError
        for bit in [*(rng.randrange(8 * len(whole)) for _ in range(3)), 8 * (len(whole) // 2) + 7]:
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            _, err = run_mtkit(capsys, "translate", exported, str(text), code=65)
            assert path.name in err
            assert "damaged" in err
            assert err.endswith("export the model again\n")
        path.unlink()
        _, err = run_mtkit(capsys, "translate", exported, str(text), code=65)
        assert path.name in err
        assert err.endswith("export the model again\n")
        path.write_bytes(whole)
    run_mtkit(capsys, "translate", exported, str(text))


def test_a_run_is_compared_on_its_validation_text(
    toy_model: Make, tokenizers: Any, text: Path, tmp_path: Path, capsys
) -> None:
    from mtkit.corpus.binarise import binarise

    run = tmp_path / "run"
    run.mkdir()
    toy_model(transformer()).rename(run / "model")
    binarise(text, text, run / "corpus" / "valid", tokenizers, None)
    _, err = run_mtkit(capsys, "export", str(run), "--to", "ctranslate2", "-o", str(tmp_path / "exported"))
    assert "12 of 12 translations are equal (greedy, float32; the run's valid text)" in err
    assert torch.is_grad_enabled()


def test_an_exported_model_uses_as_many_threads_as_torch(exported: str, monkeypatch) -> None:
    threads = []
    monkeypatch.setattr(
        build_translator, "load_exported", lambda *_, **keys: threads.append(keys["threads"].intra_threads)
    )
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # as in a worker
    build_translator.load_translator(Path(exported))
    assert threads == [1]
