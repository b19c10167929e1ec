"""Transformers in the native library: the logits and attention of the layers as they are written."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from mtkit.corpus.order.batch import Target
from mtkit.inference.native.model import NativeTransformer, native_transformer
from mtkit.inference.prepare import prepare_for_inference
from mtkit.layers.attention.cross import CrossAttention
from mtkit.layers.feed_forward.dense import FeedForward
from mtkit.models.interface import TranslationModel
from tests.unit.inference.native.toy_models import (
    OTHER_ENCODERS,
    REFUSED,
    SERVED,
    SMALL,
    V,
    build,
    native_model,
    right_padded,
    source_of,
)
from tests.unit.inference.test_fused_decoder import decode

pytestmark = pytest.mark.usefixtures("library")

CPU = torch.device("cpu")
FLOAT32_ERROR = 1e-5
# Of one number, relative to the largest of its row: bf16 has 8 bits; int8 has 127 steps, of which half is lost in
# rounding, and both factors of a product are rounded.
ROUNDING = {torch.bfloat16: 2.0**-8, torch.int8: 2.0**-7}


def products(model: TranslationModel) -> int:
    """Projections that an output has gone through; their rounding errors add up like the steps of a random walk."""
    return 4 * len(model.encoder.order) + 7 * len(model.decoder.order) + 1


def largest_error(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """Relative to the largest number of each tensor."""
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("config", [*SERVED.values(), *OTHER_ENCODERS.values()], ids=[*SERVED, *OTHER_ENCODERS])
def test_a_search_sees_what_the_written_layers_compute(config) -> None:
    model = build(config)
    assert native_transformer(model, torch.float32)
    rewritten = NativeTransformer(model, torch.float32)
    assert (rewritten.native_encoder is not None) == (config not in OTHER_ENCODERS.values())
    assert largest_error(decode(rewritten), decode(model)) < FLOAT32_ERROR


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8], ids=str)
@pytest.mark.parametrize("config", [*SERVED.values(), *OTHER_ENCODERS.values()], ids=[*SERVED, *OTHER_ENCODERS])
def test_rounded_weights_give_near_logits(config, dtype) -> None:
    rounded, model = native_model(config, dtype), build(config)
    error = largest_error(decode(rounded)[::2], decode(model)[::2])
    assert FLOAT32_ERROR < error < ROUNDING[dtype] * math.sqrt(products(model))


@pytest.mark.parametrize("config", REFUSED.values(), ids=REFUSED)
def test_layers_that_the_library_lacks_are_refused(config) -> None:
    model = build(config)
    assert not native_transformer(model, torch.float32)
    assert not isinstance(prepare_for_inference(model, torch.float32, CPU), NativeTransformer)


@pytest.mark.parametrize("kind", [CrossAttention, FeedForward])
def test_a_changed_layer_is_not_overridden(kind, monkeypatch) -> None:
    model = build()
    assert type(prepare_for_inference(model, torch.float32, CPU)) is NativeTransformer
    forward = kind.forward

    def changed(self, *args):
        y = forward(self, *args)
        return (2 * y[0], y[1]) if isinstance(y, tuple) else 2 * y

    monkeypatch.setattr(kind, "forward", changed)
    assert not native_transformer(model, torch.float32)
    prepared = prepare_for_inference(model, torch.float32, CPU)
    torch.testing.assert_close(decode(prepared), decode(model), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("config", [SMALL, SERVED["rope_in_both"]], ids=["sinusoidal", "rope"])
@pytest.mark.parametrize(
    "real",
    [[[1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1]], [[1, 1, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1]]],
    ids=["left", "interior"],
)
def test_padding_may_be_anywhere(config, real) -> None:
    source, model, token = source_of(torch.tensor(real).bool()), build(config), torch.tensor([2, 20, 30])
    with torch.inference_mode():
        found, expected = (m.step(token, m.start(source)) for m in (native_model(config), model))
        assert largest_error([found.logits()], [expected.logits()]) < FLOAT32_ERROR
        torch.testing.assert_close(found.attention, expected.attention, rtol=1e-5, atol=1e-6)
        assert not found.attention.masked_select(~source.real.unsqueeze(1)).any()
        two = torch.arange(3).repeat_interleave(2)
        found, expected = (
            m.step(token[two], each.state.select_rows(two).keep_sentences(torch.tensor([2, 1, 0])))
            for m, each in ((native_model(config), found), (model, expected))
        )
        torch.testing.assert_close(found.attention, expected.attention, rtol=1e-5, atol=1e-6)


@torch.inference_mode()
@pytest.mark.parametrize("real", [torch.ones(0, 4), torch.zeros(2, 0), torch.tensor([[1, 1], [0, 0]])])
def test_sources_without_sentences_or_tokens(real) -> None:
    source, token = source_of(real.bool()), torch.full((len(real),), 2)
    found, expected = (m.step(token, m.start(source)) for m in (native_model(), build()))
    torch.testing.assert_close(found.logits(), expected.logits(), rtol=1e-5, atol=1e-5)
    seen = source.real.any(1)  # a query that sees nothing has any weights
    torch.testing.assert_close(found.attention[seen], expected.attention[seen])


@pytest.mark.parametrize("config", [SMALL, SERVED["rope_in_both"]], ids=["sinusoidal", "rope"])
def test_a_source_of_more_tokens_than_go_through_the_layers_together(config) -> None:
    source, token = right_padded([130, 1, 97, 300]), torch.tensor([2, 3, 4, 5])
    with torch.inference_mode():
        found, expected = (m.step(token, m.start(source)) for m in (native_model(config), build(config)))
        assert largest_error([found.logits()], [expected.logits()]) < FLOAT32_ERROR
        torch.testing.assert_close(found.attention, expected.attention, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_decoder_states_of_given_translations_are_those_of_the_steps(dtype) -> None:
    model, source = native_model(SMALL, dtype), right_padded([3, 5, 4])
    ids = torch.randint(4, V, (3, 6), generator=torch.Generator().manual_seed(2))
    target = Target(ids, torch.ones_like(ids).bool(), torch.arange(6).expand(3, 6))
    with torch.inference_mode():
        found, state = model.decode_states(source, target), model.start(source)
        for t in range(6):
            step = model.step(ids[:, t], state)
            state = step.state
            assert torch.equal(found[:, t], step.hidden)
        if dtype == torch.float32:
            torch.testing.assert_close(found, build().decode_states(source, target), rtol=1e-4, atol=1e-5)


def test_a_state_of_another_model_is_refused() -> None:
    source, token = right_padded([3]), torch.tensor([2])
    with pytest.raises(ValueError, match="state of another model: TransformerCache, EncoderMemory"):
        native_model().step(token, build().start(source))


def test_a_model_with_weights_that_are_not_finite_is_refused() -> None:
    model = build()
    model.decoder[0].feed_forward.inner.weight.data[3, 4] = float("nan")
    assert not native_transformer(model, torch.float32)


def test_positions_beyond_the_tables_of_rotations(monkeypatch) -> None:
    monkeypatch.setattr("mtkit.inference.native.layers.MAX_CACHED", 3)
    config = replace(SERVED["rope_in_both"], d_model=16)
    assert largest_error(decode(native_model(config)), decode(build(config))) < FLOAT32_ERROR


def test_the_model_is_not_changed() -> None:
    model = build()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for dtype in (torch.float32, torch.int8):
        prepare_for_inference(model, dtype, CPU)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
