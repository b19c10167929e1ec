"""Projections with bf16 weights between float32 activations."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mtkit.inference import bf16, prepare
from mtkit.inference.bf16 import Bf16Linear, Bf16Output
from mtkit.inference.prepare import prepare_for_inference
from mtkit.layers.projections import Projection
from mtkit.models.rnn.config import AttentionRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from tests.unit.inference.test_prepare import CPU, SMALL, source

ROUNDING = 2.0**-8  # of one number, relative


@pytest.fixture(params=[True, False], ids=["onednn", "torch"])
def _library(request, monkeypatch) -> None:
    if request.param and not bf16.has_packed_bf16():
        pytest.skip("oneDNN has no bf16 products on this processor")
    monkeypatch.setattr(bf16, "has_packed_bf16", lambda: request.param)


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 70])
def test_is_the_product_of_rounded_numbers(bias, rows) -> None:
    torch.manual_seed(1)
    layer, x = nn.Linear(24, 40, bias=bias), torch.randn(2, rows, 24)
    exact = x.bfloat16().double() @ layer.weight.bfloat16().double().T
    if bias:
        exact = exact + layer.bias.bfloat16().double()
    found = Bf16Linear.of(layer)(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=ROUNDING, atol=1e-2 * ROUNDING)
    assert Bf16Output.of(layer)(x).dtype == torch.bfloat16
    torch.testing.assert_close(Bf16Output.of(layer)(x).float(), found)


@pytest.mark.usefixtures("_library")
def test_restricted_to_a_shortlist() -> None:
    layer, x, columns = nn.Linear(24, 40), torch.randn(5, 24), torch.tensor([7, 0, 39])
    whole = Bf16Output.of(layer)
    torch.testing.assert_close(whole.restricted(columns)(x), whole(x)[:, columns])
    assert type(whole.restricted(columns)) is Bf16Output


@pytest.mark.parametrize("config", [TransformerConfig(**SMALL), AttentionRNNConfig(d_model=32, d_embed=24)])
def test_only_large_projections_are_replaced_and_logits_are_near(config, monkeypatch) -> None:
    torch.manual_seed(1)
    model = config.build(60, 60)
    monkeypatch.setattr(bf16, "MIN_WEIGHTS_MANY_ROWS", bf16.MIN_WEIGHTS)
    small = prepare_for_inference(model, torch.bfloat16, CPU)
    assert not any(isinstance(module, Bf16Linear) for module in small.modules())
    monkeypatch.setattr(bf16, "MIN_WEIGHTS", 1_400)
    mixed = prepare_for_inference(model, torch.bfloat16, CPU)
    assert type(mixed.output) is Bf16Output
    assert any(type(module) is Bf16Linear for module in mixed.modules())
    assert any(type(module) is Projection for module in mixed.modules())
    token = torch.tensor([2, 20, 30])
    with torch.inference_mode():
        found, expected = (m.step(token, m.start(source())).logits().float() for m in (mixed, small))
    assert (found - expected).abs().max() < 0.05 * expected.abs().max()


def test_middle_sized_projections_compute_in_bf16_for_many_rows(monkeypatch) -> None:
    monkeypatch.setattr(bf16, "MIN_WEIGHTS_MANY_ROWS", 24 * 40)
    torch.manual_seed(1)
    layer, small = Projection(24, 40), Projection(24, 39)
    assert bf16.bf16_projection(small) is small
    mixed, x = bf16.bf16_projection(layer), torch.randn(2, bf16.MANY_ROWS // 2, 24)
    torch.testing.assert_close(mixed(x), Bf16Linear.of(layer)(x), rtol=0, atol=0)
    few = x[:, 1:]
    torch.testing.assert_close(mixed(few), layer(few), rtol=0, atol=0)
    assert not torch.equal(mixed(few), Bf16Linear.of(layer)(few))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8])
@pytest.mark.parametrize("config", [TransformerConfig(**SMALL), AttentionRNNConfig(d_model=32, d_embed=24)])
def test_a_middle_sized_output_stays_in_float32(config, dtype, monkeypatch) -> None:
    monkeypatch.setattr(bf16, "MIN_WEIGHTS_MANY_ROWS", 16)
    monkeypatch.setattr(prepare, "has_bf16", lambda device: True)
    model = prepare_for_inference(config.build(60, 60), dtype, CPU)
    assert type(model.output) is Projection
    assert any(isinstance(module, bf16.ManyRowsBf16Linear) for module in model.modules())
    shortlist_ids = torch.tensor([3, 50, 7])
    with torch.inference_mode():
        step = model.step(torch.tensor([2, 20, 30]), model.start(source(), shortlist_ids))
    assert step.logits().shape == (3, 3)


def test_without_rewrites_all_weights_are_bf16() -> None:
    plain = prepare_for_inference(TransformerConfig(**SMALL).build(60, 60), torch.bfloat16, CPU, rewrite=False)
    assert {parameter.dtype for parameter in plain.parameters()} == {torch.bfloat16}


def test_a_processor_without_bf16_products_of_onednn(monkeypatch):
    def refuse(*_: object) -> None:
        raise RuntimeError("bf16 path needs the cpu support avx512bw")

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", refuse)
    bf16.has_packed_bf16.cache_clear()
    try:
        assert not bf16.has_packed_bf16()
        assert bf16.Bf16Linear(torch.ones(2, 3).bfloat16(), None)(torch.ones(1, 3)).tolist() == [[3.0, 3.0]]
    finally:
        bf16.has_packed_bf16.cache_clear()
