"""Output projection with weights packed for oneDNN."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mtkit.inference import packed_output
from mtkit.inference.packed_output import PackedOutput
from mtkit.inference.prepare import prepare_for_inference
from mtkit.layers.matmul import has_onednn
from mtkit.layers.projections import Projection
from mtkit.models.transformer.config import TransformerConfig
from tests.unit.inference.test_prepare import CONFIGS, CPU, SMALL, source

pytestmark = [
    pytest.mark.skipif(not has_onednn(), reason="this torch has no oneDNN"),
    pytest.mark.usefixtures("without_native_library"),
]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [0, 1, 5, 130])
def test_is_the_projection(bias, rows) -> None:
    torch.manual_seed(1)
    layer, x = Projection(24, 40, bias=bias), torch.randn(2, rows, 24)
    bound = 24 * torch.finfo(torch.float32).eps * (x.abs() @ layer.weight.abs().T + 1)  # of two sums of 24 products
    with torch.inference_mode():
        assert ((PackedOutput(layer)(x) - nn.functional.linear(x, layer.weight, layer.bias)).abs() <= bound).all()


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_models_compute_the_same_with_it(config, monkeypatch) -> None:
    torch.manual_seed(1)
    model, token = config.build(60, 60), torch.tensor([2, 20, 30])
    plain = prepare_for_inference(model, torch.float32, CPU)
    monkeypatch.setattr(packed_output, "MIN_WEIGHTS", 60)
    monkeypatch.setattr(packed_output, "has_fast_packed_products", lambda: True)
    packed = prepare_for_inference(model, torch.float32, CPU)
    assert type(packed.output) is PackedOutput
    with torch.inference_mode():
        found, expected = (m.step(token, m.start(source())).logits() for m in (packed, plain))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("cpuinfo", "is_fast"),
    [
        ("vendor_id\t: AuthenticAMD\nflags\t\t: avx2 avx512f\n", True),
        ("vendor_id\t: AuthenticAMD\nflags\t\t: avx2\n", False),
        ("vendor_id\t: GenuineIntel\nflags\t\t: avx2 avx512f\n", False),
        ("Features\t: asimd bf16\n", False),
        (None, False),
    ],
)
def test_is_used_on_processors_that_gain(cpuinfo, is_fast, tmp_path, monkeypatch) -> None:
    path = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        path.write_text(cpuinfo)
    monkeypatch.setattr(packed_output, "CPUINFO", path)
    monkeypatch.setattr(packed_output, "MIN_WEIGHTS", 60)
    prepared = prepare_for_inference(TransformerConfig(**SMALL).build(60, 60), torch.float32, CPU)
    assert (type(prepared.output) is PackedOutput) == is_fast
