"""`mtkit export --to onnx`: encoder and decoder step in onnxruntime compute what the layers compute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mtkit.cli import entry
from mtkit.corpus.order.batch import Source
from mtkit.layers.config import (
    DeepNormConfig,
    GatedConfig,
    LearnedConfig,
    LinearScaling,
    NoPositionConfig,
    PostNormConfig,
    RoPEConfig,
    SandwichNormConfig,
)
from mtkit.layers.variants.config import (
    ALiBiConfig,
    DeBERTaConfig,
    ShawConfig,
    T5BiasConfig,
    TransformerXLConfig,
    WindowAttentionConfig,
)
from mtkit.model_folder.folder import read_model
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import AllSharedConfig, TransformerConfig
from tests.toy.cards import run_card

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
    assert err.startswith(f"12 of 12 translations are equal (greedy, float32; {text})\n")
    assert "normaliser plain-1 is not part of the export" in err
    assert_equal_attention(Path(model), Path(folder))
    run_card(Path(folder))


def assert_equal_attention(folder: Path, exported: Path) -> None:
    """Both graphs, with two hypotheses of each sentence: logits and attention of the layers as written."""
    import onnxruntime

    model = read_model(folder).model
    ids = torch.tensor([[5, 9, 7, 3], [11, 3, 0, 0]])
    real = torch.tensor([[True] * 4, [True, True, False, False]])
    encoder, decoder = (onnxruntime.InferenceSession(exported / f"{name}.onnx") for name in ("encoder", "decoder"))
    keys, values = run_session(encoder, ids=ids, real=real)
    layers, _, groups, _, head_dim = keys.shape
    past = [torch.zeros(layers, 2, 2, groups, 0, head_dim)] * 2
    with torch.inference_mode():
        state = model.start(Source(ids, real, torch.arange(4).expand(2, 4)))
        state = state.select_rows(torch.tensor([0, 0, 1, 1]))
        for token in torch.tensor([[2, 2, 2, 2], [5, 6, 7, 8], [9, 9, 9, 10]]):
            step = model.step(token, state)
            memory = {"memory_keys": keys, "memory_values": values, "past_keys": past[0], "past_values": past[1]}
            logits, attention, *past = run_session(decoder, token=token.view(2, 2), real=real, **memory)
            torch.testing.assert_close(logits, step.logits(), rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(attention, step.attention, rtol=1e-4, atol=1e-4)
            state = step.state


def run_session(session: Any, **inputs: torch.Tensor) -> list[torch.Tensor]:
    names = {each.name for each in session.get_inputs()}
    return [torch.from_numpy(each) for each in session.run(None, {n: inputs[n].contiguous().numpy() for n in names})]


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
