"""The fused decoder step: the logits of the layers as they are written."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from mtkit.corpus.order.batch import Source
from mtkit.inference import stacked_cache
from mtkit.inference.absorbed_cross_attention import absorb_cross_attention
from mtkit.inference.fuse import can_be_fused
from mtkit.inference.fused_decoder import FusedTransformer
from mtkit.inference.prepare import prepare_for_inference
from mtkit.inference.stacked_cache import StackedCache
from mtkit.layers.attention.config import SSRUConfig
from mtkit.layers.norms.config import PostNormConfig, PreNormConfig, RMSNormConfig
from mtkit.layers.positions.absolute_config import NoPositionConfig, SinusoidalConfig
from mtkit.layers.positions.relative_config import ALiBiConfig, RoPEConfig
from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.config import TransformerConfig

pytestmark = pytest.mark.usefixtures("without_native_library")

CPU = torch.device("cpu")
SMALL = TransformerConfig(d_model=32, d_ff=48, num_heads=4, encoder_layers=1, decoder_layers=3)
FUSABLE = {
    "rope": SMALL,
    "rotate_half": replace(SMALL, decoder_positions=RoPEConfig(rotate_half=True)),
    "sinusoidal": replace(SMALL, decoder_positions=SinusoidalConfig()),
    "none": replace(SMALL, decoder_positions=NoPositionConfig()),
    "post_norm": replace(SMALL, residual=PostNormConfig(norm=RMSNormConfig())),
    "rms": replace(SMALL, residual=PreNormConfig(norm=RMSNormConfig()), bias=False),
    "pruned_heads": replace(SMALL, decoder_heads=[3, 1, 2], cross_heads=[4, 3, 1]),
}
OTHERS = {
    "alibi": replace(SMALL, decoder_positions=ALiBiConfig()),
    "ssru": replace(SMALL, decoder_attention=SSRUConfig()),
    "grouped": replace(SMALL, num_kv_heads=2),
    "qk_norm": replace(SMALL, qk_norm="rms"),
    "value_width": replace(SMALL, value_head_dim=6),
}


def build(config: TransformerConfig, *, absorb: bool = False) -> TranslationModel:
    torch.manual_seed(1)
    model = config.build(60, 60).eval()
    if absorb:
        absorb_cross_attention(model)
    return model


def source() -> Source:
    ids = torch.randint(4, 60, (3, 5), generator=torch.Generator().manual_seed(1))
    return Source(ids, torch.arange(5) < torch.tensor([[5], [3], [4]]), torch.arange(5).expand(3, 5))


@torch.inference_mode()
def decode(model: TranslationModel, steps: int = 12) -> list[torch.Tensor]:
    """Logits and attention of a search that expands, reorders and removes hypotheses."""
    generator, found = torch.Generator().manual_seed(7), []
    state, rows, sentences, width = model.start(source()), 3, 3, 1
    for t in range(steps):
        step = model.step(torch.randint(4, 60, (rows,), generator=generator), state)
        found += [step.logits(), step.attention]
        state = step.state
        parents = torch.randint(width, (sentences, 4), generator=generator) if t not in (4, 5) else None
        if parents is not None:
            state = state.select_rows((torch.arange(sentences).unsqueeze(1) * width + parents).flatten())
            width = 4
        if t == 6:
            state, sentences = state.keep_sentences(torch.tensor([2, 1])), 2
        rows = sentences * width
    return found


@pytest.mark.parametrize("absorb", [False, True])
@pytest.mark.parametrize("config", FUSABLE.values(), ids=FUSABLE)
def test_a_search_sees_what_the_written_layers_compute(config, absorb) -> None:
    model = build(config, absorb=absorb)
    assert can_be_fused(model)
    torch.testing.assert_close(decode(FusedTransformer(model)), decode(model), rtol=1e-4, atol=1e-5)


def test_dead_tokens_are_dropped_without_effect(monkeypatch) -> None:
    monkeypatch.setattr(stacked_cache, "MIN_SPARE", 1)
    monkeypatch.setattr(stacked_cache, "GROWTH", 0.0)
    model = build(SMALL)
    fused, lengths = FusedTransformer(model), []
    extended = StackedCache.extended
    monkeypatch.setattr(StackedCache, "extended", lambda cache: lengths.append(cache.length) or extended(cache))
    torch.testing.assert_close(decode(fused, steps=30), decode(model, steps=30), rtol=1e-4, atol=1e-5)
    assert any(after < before for before, after in itertools.pairwise(lengths))


@torch.inference_mode()
def test_a_state_can_be_continued_twice() -> None:
    fused = FusedTransformer(build(SMALL))
    state = fused.step(torch.tensor([2, 2, 2]), fused.start(source())).state
    first = fused.step(torch.tensor([5, 6, 7]), state)
    again = fused.step(torch.tensor([8, 9, 10]), state)
    following = fused.step(torch.tensor([11, 12, 13]), first.state).logits()
    repeated = fused.step(torch.tensor([5, 6, 7]), state)
    assert torch.equal(repeated.logits(), first.logits())
    assert not torch.equal(again.logits(), first.logits())
    assert torch.equal(fused.step(torch.tensor([11, 12, 13]), repeated.state).logits(), following)


@torch.inference_mode()
def test_independent_paths_of_a_sentence() -> None:
    model = build(SMALL)
    logits = []
    for each in (model, FusedTransformer(model)):
        state = each.start(source()).select_rows(torch.arange(3).repeat_interleave(2))
        for tokens in ([2] * 6, [5, 6, 7, 8, 9, 10]):
            step = each.step(torch.tensor(tokens), state)
            state = step.state
        logits.append(step.logits())
    torch.testing.assert_close(logits[1], logits[0])


@torch.inference_mode()
def test_a_sentence_without_tokens_is_decoded_by_the_written_layers() -> None:
    model = build(SMALL)
    empty = replace(source(), real=torch.arange(5) < torch.tensor([[5], [0], [4]]))
    found, expected = (
        m.step(torch.tensor([2, 2, 2]), m.start(empty)).logits() for m in (FusedTransformer(model), model)
    )
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("config", OTHERS.values(), ids=OTHERS)
def test_other_layers_run_as_they_are_written(config) -> None:
    model = build(config)
    assert not can_be_fused(model)
    assert type(prepare_for_inference(model, torch.float32, CPU)) is type(model)


def test_a_changed_layer_is_not_overridden(monkeypatch) -> None:
    model = build(SMALL)
    assert type(prepare_for_inference(model, torch.float32, CPU)) is FusedTransformer
    forward = type(model.decoder[0].feed_forward).forward
    monkeypatch.setattr(type(model.decoder[0].feed_forward), "forward", lambda self, x, real=None: 2 * forward(self, x))
    assert type(prepare_for_inference(model, torch.float32, CPU)) is type(model)
