"""`mtkit export --to onnx`: encoder and decoder step in onnxruntime, called by mtkit's own search."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtkit.cli import entry
from mtkit.layers.attention.sparse.sliding_window import WindowAttentionConfig
from mtkit.layers.feed_forward.gated import GatedConfig
from mtkit.layers.norms.deepnorm import DeepNormConfig
from mtkit.layers.norms.residual import PostNormConfig
from mtkit.layers.norms.sandwich import SandwichNormConfig
from mtkit.layers.positions.alibi import ALiBiConfig
from mtkit.layers.positions.base import NoPositionConfig
from mtkit.layers.positions.deberta import DeBERTaConfig
from mtkit.layers.positions.learned import LearnedConfig
from mtkit.layers.positions.rope import LinearScaling, RoPEConfig
from mtkit.layers.positions.shaw import ShawConfig
from mtkit.layers.positions.t5 import T5BiasConfig
from mtkit.layers.positions.transformer_xl import TransformerXLConfig
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from mtkit.models.transformer.sharing import AllSharedConfig

Make = Callable[[Any], Path]


def transformer(**keys: Any) -> TransformerConfig:
    return TransformerConfig(d_model=8, d_ff=16, num_heads=2, encoder_layers=1, decoder_layers=1, **keys)


def run_mtkit(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[list[str], str]:
    assert entry.execute(words) == code
    captured = capsys.readouterr()
    return captured.out.split("\n")[:-1], captured.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"encoder_positions": LearnedConfig(max_length=80), "decoder_positions": LearnedConfig(max_length=80)},
        {"encoder_positions": RoPEConfig(), "decoder_positions": RoPEConfig(), "num_kv_heads": 1},
        {"encoder_positions": RoPEConfig(rotate_half=True), "decoder_positions": RoPEConfig(scaling=LinearScaling())},
        {"encoder_positions": ShawConfig(), "decoder_positions": T5BiasConfig()},
        {"encoder_positions": ALiBiConfig(), "decoder_positions": DeBERTaConfig()},
        {"encoder_positions": DeBERTaConfig(), "decoder_positions": NoPositionConfig()},
        {"residual": SandwichNormConfig(), "feed_forward": GatedConfig(), "qk_norm": "rms"},
        {"residual": PostNormConfig(), "decoder_positions": ALiBiConfig()},
        {"residual": DeepNormConfig(), "decoder_sharing": AllSharedConfig()},
        {"parallel_sublayers": True, "tied_embeddings": "none"},
    ],
    ids=lambda keys: " ".join(keys) or "defaults",
)
def test_supported_models_translate_equally(keys: dict[str, Any], toy_model: Make, text: Path, capsys) -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name)
    model, folder = str(toy_model(transformer(**keys))), str(text.parent / "exported")
    out, err = run_mtkit(capsys, "export", model, "--to", "onnx", "-o", folder, "--check", str(text))
    assert out == [folder]
    assert err == f"12 of 12 translations are equal (greedy, float32; {text})\n"
    for beam_size in ("1", "3"):
        options = [str(text), "--compute-type", "float32", "--jsonl", "--beam-size", beam_size]
        ours, theirs = (
            [json.loads(line) for line in run_mtkit(capsys, "translate", path, *options)[0]] for path in (model, folder)
        )
        for own, other in zip(ours, theirs, strict=True):
            assert own["hyp"] == other["hyp"]
            assert own["log_prob"] == pytest.approx(other["log_prob"], abs=1e-4 * max(1, abs(own["log_prob"])))
            assert own["alignment"] == other["alignment"]
    if "encoder_positions" in keys and keys["encoder_positions"].kind == "learned":
        (text.parent / "long").write_text("a " * 100)
        words = ["translate", folder, str(text.parent / "long"), "--set", "split_long_lines=false"]
        err = run_mtkit(capsys, *words, code=65)[1]
        assert err.startswith("mtkit: error: a sentence is longer than the exported position table")
    assert (
        "computes with float32"
        in run_mtkit(capsys, "translate", folder, str(text), "--compute-type", "bf16", code=2)[1]
    )
    (Path(folder) / "decoder.onnx").write_bytes(b"nonsense")
    assert "onnxruntime cannot read it" in run_mtkit(capsys, "translate", folder, str(text), code=65)[1]


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (Seq2SeqRNNConfig(d_model=8), "model.kind: rnn"),
        (transformer(decoder_positions=TransformerXLConfig()), "model.decoder_positions.kind: transformer_xl"),
        (transformer(encoder_attention=WindowAttentionConfig()), "model.encoder_attention.kind: window"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unsupported_keys_are_named(config: Any, key: str, toy_model: Make, tmp_path: Path, capsys) -> None:
    words = ["export", str(toy_model(config)), "--to", "onnx", "-o", str(tmp_path / "exported")]
    assert f"mtkit: error: {key}: " in run_mtkit(capsys, *words, code=2)[1]
    assert not (tmp_path / "exported").exists()
