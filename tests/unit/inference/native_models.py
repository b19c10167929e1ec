"""Small Transformers on both roads, and searches of sentences of several lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from mtkit.corpus.order.batch import Source
from mtkit.inference.native_search import NativeModel
from mtkit.layers.config import (
    DeepNormConfig,
    DenseConfig,
    GatedConfig,
    LearnedConfig,
    LinearScaling,
    NoNormConfig,
    NoPositionConfig,
    NTKScaling,
    PostNormConfig,
    PreNormConfig,
    RMSNormConfig,
    RoPEConfig,
    SinusoidalConfig,
)
from mtkit.layers.variants.config import (
    ALiBiConfig,
    HeadGatesConfig,
    MixtureOfExpertsConfig,
    SSRUConfig,
    T5BiasConfig,
    WindowAttentionConfig,
)
from mtkit.models.transformer.config import AllSharedConfig, CycleConfig, SequenceConfig, TransformerConfig
from mtkit.models.transformer.model import Transformer
from mtkit.search.config import SearchConfig
from mtkit.search.constraints import Constraint, ExcludedTexts, ForcedPrefix, TokenBytes
from mtkit.search.hypothesis import Hypothesis, SearchSettings, SentenceRequest, SpecialIds
from mtkit.search.interface import SearchRequest

V, BOS, EOS = 60, 2, 3
LENGTHS = [5, 1, 9, 3, 12, 4, 7, 2, 6, 10]
SPECIAL_IDS = SpecialIds(vocab_size=V, bos=BOS, eos=EOS, banned=(0, BOS))
# one to three letters of four, so that many texts have several tokenizations
TOKEN_BYTES = [b"" if i < 4 else bytes(b"abcd"[i // 4**k % 4] for k in range(1 + i % 3)) for i in range(V)]


def both(positions: Any) -> dict[str, Any]:
    """The positions of encoder and decoder."""
    return {"encoder_positions": positions, "decoder_positions": positions}


SMALL = TransformerConfig(d_model=32, d_ff=48, num_heads=4, encoder_layers=2, decoder_layers=3)
SUPPORTED = {
    "sinusoidal": SMALL,
    "concatenated": replace(SMALL, **both(SinusoidalConfig(layout="concatenated", offset=2, reaches_base=True))),
    "none": replace(SMALL, **both(NoPositionConfig())),
    "learned": replace(SMALL, **both(LearnedConfig(max_length=40))),
    "interpolated": replace(SMALL, **both(LearnedConfig(max_length=16, interpolation_factor=2.5))),
    "rope": replace(SMALL, **both(RoPEConfig())),
    "rotate_half": replace(SMALL, **both(RoPEConfig(rotate_half=True, scaling=LinearScaling(factor=3)))),
    "one_rope": replace(SMALL, decoder_positions=RoPEConfig(scaling=NTKScaling(factor=2))),
    "other_rope": replace(SMALL, encoder_positions=RoPEConfig(), decoder_positions=SinusoidalConfig()),
    "post_norm": replace(SMALL, residual=PostNormConfig(norm=RMSNormConfig())),
    "rms": replace(SMALL, residual=PreNormConfig(norm=RMSNormConfig(epsilon=1e-3)), bias=False),
    "no_norms": replace(SMALL, residual=PostNormConfig(norm=NoNormConfig())),
    "pruned_heads": replace(SMALL, encoder_heads=[2, 4], decoder_heads=[3, 1, 2], cross_heads=[4, 3, 1]),
    "gelu": replace(SMALL, feed_forward=DenseConfig(activation="gelu"), tied_embeddings="target"),
    "silu": replace(SMALL, feed_forward=DenseConfig(activation="silu"), tied_embeddings="none"),
    "gelu_tanh": replace(SMALL, feed_forward=DenseConfig(activation="gelu_tanh")),
    "gated": replace(SMALL, feed_forward=GatedConfig(), d_ff=47),
    "gated_biases": replace(SMALL, feed_forward=GatedConfig(activation="gelu_tanh", bias=True)),
    "t5": replace(SMALL, **both(T5BiasConfig(num_buckets=8, max_distance=6)), scaled_attention=False, bias=False),
    "t5_scaled": replace(SMALL, encoder_positions=T5BiasConfig(scaled=True), decoder_positions=T5BiasConfig()),
    "two_widths": replace(SMALL, decoder_d_ff=24, decoder_num_heads=2, **both(T5BiasConfig(num_buckets=4))),
    "output_bias": replace(SMALL, output_bias=True),
    "scaled_output": replace(SMALL, residual=PreNormConfig(), scaled_output=True),
    "embedding_norm": replace(SMALL, embedding_norm=True),
    "unscaled_embeddings": replace(SMALL, scaled_embeddings=False, output_bias=True, tied_embeddings="embeddings"),
    "deep_encoder": replace(SMALL, encoder_layers=5, decoder_layers=1),
    "shared": replace(SMALL, encoder_sharing=SequenceConfig(distinct=1), decoder_sharing=AllSharedConfig()),
    "cycle": replace(SMALL, decoder_sharing=CycleConfig(distinct=2)),
    "unscaled": replace(SMALL, scaled_attention=False),
    # no width is a multiple of the lanes of a vector, or of the inputs in a group
    "odd_widths": replace(SMALL, d_model=30, num_heads=3, head_dim=5, d_ff=47),
    "wide_heads": replace(SMALL, num_heads=3, head_dim=20),
    "many_panels": replace(SMALL, d_model=144, d_ff=330),
}
REFUSED = {
    "alibi": replace(SMALL, decoder_positions=ALiBiConfig()),
    "encoder_alibi": replace(SMALL, encoder_positions=ALiBiConfig()),
    "ssru": replace(SMALL, decoder_attention=SSRUConfig()),
    "window": replace(SMALL, encoder_attention=WindowAttentionConfig(width=2)),
    "grouped": replace(SMALL, num_kv_heads=2),
    "qk_norm": replace(SMALL, qk_norm="rms"),
    "value_width": replace(SMALL, value_head_dim=6),
    "parallel": replace(SMALL, parallel_sublayers=True),
    "experts": replace(SMALL, feed_forward=MixtureOfExpertsConfig()),
    "deepnorm": replace(SMALL, residual=DeepNormConfig()),
    "head_gates": replace(SMALL, head_gates=HeadGatesConfig()),
}


def build(config: TransformerConfig = SMALL, end_factor: float = 2.0) -> Transformer:
    """A model with biases and norms as after training, whose sentences end at various lengths."""
    torch.manual_seed(1)
    model = config.build(V, V).eval()
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 and "gate" not in name:
            nn.init.normal_(parameter, mean=float(name.endswith("weight")), std=0.2)
    with torch.no_grad():
        model.output.weight[EOS] *= end_factor
    return model


def weights_of(model: nn.Module) -> dict[str, Any]:
    return {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}


def fast(config: TransformerConfig, model: nn.Module, dtype: Any = "float32", threads: int = 1) -> NativeModel:
    return NativeModel(config, weights_of(model), dtype, threads=threads)


def sources(lengths: Sequence[int] = LENGTHS) -> list[list[int]]:
    """Sentences of these lengths, the end of sentence included."""
    generator = torch.Generator().manual_seed(1)
    return [[*torch.randint(4, V, (n - 1,), generator=generator).tolist(), EOS] for n in lengths]


def requests(**changes: Sequence[Any]) -> list[SentenceRequest]:
    """A request for each source; `changes` has a list for each field that differs."""
    return [
        SentenceRequest(
            source=source,
            sentence_id=100 + i,
            **{"max_length": len(source) + 8, **{name: each[i] for name, each in changes.items()}},
        )
        for i, source in enumerate(sources())
    ]


def padded(asked: Sequence[SentenceRequest]) -> Source:
    """The sources of requests as the written model reads them."""
    lengths = torch.tensor([len(each.source) for each in asked])
    pos = torch.arange(int(lengths.max())).expand(len(asked), -1)
    ids = torch.zeros(pos.shape, dtype=torch.int64)
    for row, each in enumerate(asked):
        ids[row, : len(each.source)] = torch.tensor(each.source)
    return Source(ids, pos < lengths.unsqueeze(1), pos.clone())


def written_search(
    model: Transformer, config: SearchConfig, asked: Sequence[SentenceRequest], **options: bool
) -> list[list[Hypothesis]]:
    """The search of the reference implementation."""
    constraints: tuple[Constraint, ...] = ()
    if any(each.prefix or each.exclude for each in asked):
        excluded = ExcludedTexts([each.exclude for each in asked], TokenBytes(TOKEN_BYTES))
        constraints = (excluded, ForcedPrefix([each.prefix for each in asked], free=asked[0].free_prefix))
    source = padded(asked)
    request = SearchRequest(
        source=source,
        real=source.real,
        max_length=torch.tensor([each.max_length for each in asked]),
        min_length=torch.tensor([each.min_length for each in asked]),
        sentence_ids=torch.tensor([each.sentence_id for each in asked]),
        constraints=constraints,
    )
    return config.build(SPECIAL_IDS, **options)(model, request)


def settings(config: SearchConfig, **options: Any) -> SearchSettings:
    return SearchSettings(config=config, special_ids=SPECIAL_IDS, token_bytes=TOKEN_BYTES, **options)


def known_scores(hypothesis: Hypothesis) -> list[float]:
    """All log-probabilities; those that were not computed are NaN."""
    scores = (hypothesis.log_prob, hypothesis.score, *hypothesis.token_log_probs)
    return [score for score in scores if not math.isnan(score)]


def assert_alike(found: list[list[Hypothesis]], expected: list[list[Hypothesis]], tolerance: float = 2e-5) -> None:
    for some, others in zip(found, expected, strict=True):
        assert [each.tokens for each in some] == [each.tokens for each in others]
        assert [each.finished for each in some] == [each.finished for each in others]
        assert [each.failed for each in some] == [each.failed for each in others]
        for one, other in zip(some, others, strict=True):
            assert known_scores(one) == pytest.approx(known_scores(other), abs=tolerance)
            assert (one.attention is None) == (other.attention is None)
            if one.attention is not None and other.tokens:
                length = one.attention.shape[1]
                torch.testing.assert_close(
                    torch.from_numpy(one.attention), torch.as_tensor(other.attention)[:, :length]
                )
