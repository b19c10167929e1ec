"""`mtkit export --to ctranslate2`: supported models translate equally in both engines; others are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mtkit.cli import entry
from mtkit.errors import UsageError
from mtkit.export.ctranslate2 import CTranslate2Runner, search_options
from mtkit.layers.config import (
    DeepNormConfig,
    DenseConfig,
    GatedConfig,
    LearnedConfig,
    LinearScaling,
    NoPositionConfig,
    NTKScaling,
    PostNormConfig,
    PreNormConfig,
    RMSNormConfig,
    RoPEConfig,
    SandwichNormConfig,
    SinusoidalConfig,
)
from mtkit.layers.variants.config import (
    ALiBiConfig,
    DeBERTaConfig,
    LinformerConfig,
    MixtureOfExpertsConfig,
    PerformerConfig,
    ShawConfig,
    T5BiasConfig,
    TransformerXLConfig,
)
from mtkit.model_folder.folder import update_search_config
from mtkit.models.rnn.config import Seq2SeqRNNConfig
from mtkit.models.transformer.config import AllSharedConfig, TransformerConfig
from mtkit.search.config import BeamConfig, DiverseBeamConfig, MinimumBayesRiskConfig, SamplingConfig, SearchConfig
from mtkit.search.length_penalty import GNMT
from mtkit.search.support import TABLE
from mtkit.text.lines import read_lines
from mtkit.translate.load import load_translator
from mtkit.translate.translator import TranslationOptions
from tests.toy.cards import run_card
from tests.toy.sampling import thinned
from tests.toy.searches import random_search

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
    "t5": {**both(T5BiasConfig(num_buckets=8, max_distance=20)), "residual": PreNormConfig(), "scaled_output": True},
    "t5 grouped": {**both(T5BiasConfig(num_buckets=8, max_distance=20, scaled=True)), "num_kv_heads": 2},
    "alibi decoder": {"decoder_positions": ALiBiConfig()},
    "as Marian": {**both(SinusoidalConfig(layout="concatenated")), "scaled_embeddings": False, "output_bias": True},
    "shared layers": {"encoder_sharing": AllSharedConfig(), "decoder_sharing": AllSharedConfig()},
    "untied": {"tied_embeddings": "none"},
    "without biases": {"bias": False, "scaled_attention": False},
    "as mBART": {**both(LearnedConfig(max_length=80)), "embedding_norm": True},
    "other decoder": {"decoder_d_ff": 40, "decoder_num_heads": 2},
}


def run_mtkit(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[list[str], str]:
    assert entry.execute(words) == code
    captured = capsys.readouterr()
    return captured.out.split("\n")[:-1], captured.err


@pytest.mark.parametrize("keys", thinned(SUPPORTED.values(), 3), ids=SUPPORTED.keys())
def test_supported_models_translate_equally(keys: dict[str, Any], toy_model: Make, text: Path, capsys) -> None:
    model, folder = str(toy_model(transformer(**keys))), str(text.parent / "exported")
    out, err = run_mtkit(capsys, "export", model, "--to", "ctranslate2", "-o", folder, "--check", str(text))
    assert out == [folder]
    assert f"12 of 12 translations are equal (greedy, float32; {text})" in err
    assert_equal_scores(Path(model), Path(folder), list(read_lines(text)))
    run_card(Path(folder))


def assert_equal_scores(model: Path, exported: Path, lines: list[str]) -> None:
    """CTranslate2, without any of our code, gives our translations our log-probabilities."""
    import ctranslate2

    options = TranslationOptions(with_scores=True, split_sentences=False)
    translator = load_translator(model, compute_type="float32", search_overrides=["beam_size=1"], options=options)
    ours = [each for each in translator.translate(lines) if each.tokens]
    peer = ctranslate2.Translator(str(exported), compute_type="float32", intra_threads=1)
    tokenizer = translator.tokenizers.src
    sources = [tokenizer.ids_to_tokens(ids) for ids in tokenizer.encode([lines[each.line - 1] for each in ours])]
    for own, other in zip(ours, peer.score_batch(sources, [list(each.tokens) for each in ours]), strict=True):
        assert sum(other.log_probs) == pytest.approx(own.log_prob, abs=2e-4 * max(1, abs(own.log_prob)))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"length_penalty": GNMT()}, 'length_penalty={"kind": "gnmt", "alpha": 0.6}'),
        ({"early_stopping": False}, "early_stopping=false"),
        ({"coverage_penalty": 0.2}, "coverage_penalty=0.2"),
        ({"repetition_penalty": 1.5}, "repetition_penalty=1.5"),
        ({"method": DiverseBeamConfig(groups=5)}, 'method={"kind": "diverse", "groups": 5, "diversity_strength": 0.5}'),
        ({"method": BeamConfig(), "rerank": MinimumBayesRiskConfig()}, 'rerank={"kind": "mbr", "metric": "chrf"}'),
    ],
)
def test_ctranslate2_has_no_option_for(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"search.{key}: CTranslate2 has no option for this")):
        search_options(SearchConfig(**changes))
    with pytest.raises(UsageError, match=r'search.method=.*"sampling".*: CTranslate2 has no option for this'):
        search_options(SearchConfig(method=SamplingConfig()))


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 20))])
def test_a_model_with_any_search_is_exported_and_its_settings_are_named(
    seed: int, toy_model: Make, text: Path, capsys
) -> None:
    """As options for each call, or as not computed; the comparison is that of plain greedy search."""
    search, model = random_search(seed), toy_model(transformer())
    update_search_config(model, search)
    folder = str(text.parent / "exported")
    _, err = run_mtkit(capsys, "export", str(model), "--to", "ctranslate2", "-o", folder, "--check", str(text))
    assert "12 of 12 translations are equal" in err
    named = {
        "beam_size": f"beam_size={search.beam_size}",
        "n_best": f"num_hypotheses={search.n_best}",
        "no_repeat_ngram": f"no_repeat_ngram_size={search.no_repeat_ngram}",
        "allow_unknown": f"disable_unk={not search.allow_unknown}",
        "max_length": f'search.max_length={{"factor": {search.max_length.factor}',
        "min_length": f'search.min_length={{"factor": {search.min_length.factor}',
        "coverage_penalty": f"search.coverage_penalty={search.coverage_penalty}",
        "repetition_penalty": f"search.repetition_penalty={search.repetition_penalty}",
        "rerank": "search.rerank=",
        "retry_loops": "search.retry_loops=true",
        "split_long_lines": "search.split_long_lines=true",
    }
    for key, words in named.items():
        has_effect = key not in search.ignored_keys() and getattr(search, key) != TABLE[key].neutral
        assert (words in err) or not has_effect, (key, err)


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


def test_errors(toy_model: Make, exported: str, tmp_path: Path, text: Path, capsys, monkeypatch) -> None:
    model = str(toy_model(transformer()))
    command = ["export", model, "--to", "ctranslate2", "-o"]
    assert "exists and is not an exported model of mtkit" in run_mtkit(capsys, *command, str(tmp_path), code=2)[1]
    (tmp_path / "empty").touch()
    words = [*command, str(tmp_path / "new"), "--check", str(tmp_path / "empty")]
    assert "empty: has no lines to translate" in run_mtkit(capsys, *words, code=65)[1]
    for words in (["score", exported, "--src", str(text), "--ref", str(text)], ["translate", exported, str(text)]):
        message = "exported: exported for another program; give the model folder that it was exported from"
        assert message in run_mtkit(capsys, *words, code=2)[1]
    monkeypatch.setattr(CTranslate2Runner, "translate", lambda self, sources, search, begin: [[4]] * len(sources))
    _, err = run_mtkit(capsys, *command, str(tmp_path / "new"), "--check", str(text), code=65)
    assert "the exported model translates differently: 2 of 12 translations are equal" in err  # the blank ones
    assert not (tmp_path / "new").exists()


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
