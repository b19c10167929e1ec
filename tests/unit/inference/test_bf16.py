"""Projections with bf16 weights between float32 activations."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mtkit.inference import bf16
from mtkit.inference.bf16 import Bf16Linear, Bf16Output
from mtkit.inference.prepare import prepare_for_inference
from mtkit.layers.projections import Projection
from mtkit.models.rnn.config import AttentionRNNConfig
from mtkit.models.transformer.config import TransformerConfig
from tests.unit.inference.test_prepare import CPU, SMALL, source

pytestmark = pytest.mark.usefixtures("without_native_library")

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


@pytest.mark.parametrize("config", [TransformerConfig(**SMALL), AttentionRNNConfig(d_model=32, d_embed=24)])
def test_only_large_projections_are_replaced_and_logits_are_near(config, monkeypatch) -> None:
    torch.manual_seed(1)
    model = config.build(60, 60)
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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8])
def test_a_step_does_not_depend_on_the_number_of_rows(dtype, monkeypatch) -> None:
    """Projections of up to 128 x 384 weights stay in float32 for any number of rows; bf16 would differ by 2^-9."""
    torch.manual_seed(1)
    config = TransformerConfig(**SMALL | {"d_model": 128, "d_ff": 384, "num_heads": 4})
    model = prepare_for_inference(config.build(60, 60), dtype, CPU)
    token, repeats = torch.tensor([2, 20, 30]), 100
    many = source().select(torch.arange(3).repeat(repeats))
    with torch.inference_mode():
        few_logits = model.step(token, model.start(source())).logits().float()
        many_logits = model.step(token.repeat(repeats), model.start(many)).logits().float()
    scale = float(few_logits.abs().max())
    torch.testing.assert_close(many_logits, few_logits.repeat(repeats, 1), rtol=0, atol=2**-16 * scale)


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
