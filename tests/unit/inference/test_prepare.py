"""Preparation of models of the reference implementation: compute types, and projections in the native library."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mtkit.errors import UsageError
from mtkit.inference.prepare import NativeLinear, prepare_for_inference, resolve_compute_type
from mtkit.layers.positions import Position
from mtkit.layers.projections import Projection
from mtkit.models.interface import TranslationModel
from mtkit.models.rnn.config import AttentionRNNConfig, Seq2SeqRNNConfig
from mtkit.native.library import native
from tests.unit.inference.native_models import REFUSED, SMALL, V, build, padded, requests

CPU = torch.device("cpu")
ERROR = {torch.float32: 1e-5, torch.bfloat16: 0.05, torch.int8: 0.1}  # of logits, relative to the largest
RECURRENT = {
    "attention": AttentionRNNConfig(d_model=32, d_embed=24, d_attention=16),
    "seq2seq": Seq2SeqRNNConfig(d_model=32, d_embed=24),
    "input_feeding": AttentionRNNConfig(d_model=32, d_embed=24, decoder="input_feeding"),
}
MODELS = {"transformer": SMALL, **RECURRENT, **REFUSED}

needs_library = pytest.mark.skipif(native().functions is None, reason=f"no native library: {native().reason}")


@torch.inference_mode()
def logits(model: TranslationModel) -> list[Tensor]:
    """Of three steps, the last two of them with two hypotheses."""
    found, state, token = [], model.start(padded(requests()[:3])), torch.tensor([2, 20, 30])
    for rows in (torch.arange(3).repeat_interleave(2), torch.tensor([1, 0, 2, 2, 5, 4]), torch.arange(6)):
        step = model.step(token, state)
        found.append(step.logits())
        state = step.state.select_rows(rows)
        token = torch.tensor([4, 5, 6, 7, 8, 9])
    return found


def assert_near(found: list[Tensor], expected: list[Tensor], error: float) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).abs().max() <= error * other.abs().max()


@pytest.mark.whole
@needs_library
@pytest.mark.parametrize("dtype", ERROR, ids=str)
@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_projections_compute_in_the_library(config, dtype) -> None:
    model = build(config)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    prepared = prepare_for_inference(model, dtype, CPU)
    positions = [module for module in prepared.modules() if isinstance(module, Position)]
    in_positions = {id(each) for module in positions for each in module.modules()}
    assert all(id(module) in in_positions for module in prepared.modules() if type(module) is Projection)
    assert type(prepared.output) is NativeLinear
    assert_near(logits(prepared), logits(model), ERROR[dtype])
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.usefixtures("without_native_library")
@pytest.mark.parametrize("config", [SMALL, RECURRENT["attention"]], ids=["transformer", "recurrent"])
def test_without_the_library_int8_rounds_the_weights(config) -> None:
    model = build(config)
    prepared = prepare_for_inference(model, torch.int8, CPU)
    assert_near(logits(prepared), logits(model), ERROR[torch.int8])
    for weight in (prepared.output.weight, model.output.weight):
        integers = weight / weight.abs().amax(1, keepdim=True) * 127
        is_rounded = bool((integers - integers.round()).abs().max() < 1e-3)
        assert is_rounded == (weight is prepared.output.weight)


@pytest.mark.usefixtures("without_native_library")
def test_without_the_library_bf16_converts_all_weights() -> None:
    model = prepare_for_inference(build(), torch.bfloat16, CPU)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert logits(model)[0].dtype == torch.bfloat16


@needs_library
@torch.inference_mode()
@pytest.mark.parametrize("dtype", ERROR, ids=str)
def test_the_type_and_the_shape_of_the_input_are_kept(dtype) -> None:
    layer, x = nn.Linear(24, 40), torch.randn(2, 3, 24)
    linear = NativeLinear(layer.weight, layer.bias, dtype)
    assert linear(x).shape == (2, 3, 40)
    assert linear(x[:, :0]).shape == (2, 0, 40)
    assert linear(x.bfloat16()).dtype == torch.bfloat16
    assert torch.equal(linear(x.transpose(0, 1)), linear(x).transpose(0, 1))  # not contiguous


@needs_library
@pytest.mark.parametrize("dtype", ERROR, ids=str)
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("outputs", "width"), [(1, 1), (3, 24), (16, 37), (33, 64), (300, 7), (1025, 130)])
@pytest.mark.parametrize("rows", [0, 1, 14])
def test_products_are_those_of_the_layer_but_for_rounding(rows, outputs, width, with_bias, dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    weight, x = torch.randn(outputs, width, generator=generator), torch.randn(rows, width, generator=generator)
    bias = torch.randn(outputs, generator=generator) if with_bias else None
    exact = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    # int8: steps relative to the largest number of a row, in both factors of all products; else to the number itself
    sizes = [
        each.abs().amax(1, keepdim=True).expand_as(each) if dtype == torch.int8 else each.abs() for each in (x, weight)
    ]
    rounding = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-8, torch.int8: 1 / 127}[dtype]
    bound = 2 * rounding * (sizes[0] @ sizes[1].T) + width * 2.0**-23 * (x.abs() @ weight.abs().T + 10)
    found = NativeLinear(weight, bias, dtype)(x)
    assert found.shape == (rows, outputs)
    assert ((found - exact).abs() <= bound).all()


def test_without_rewrites_the_model_is_as_it_is_written() -> None:
    model = SMALL.build(V, V)
    plain = prepare_for_inference(model, torch.float32, CPU, rewrite=False)
    assert plain is not model  # in eval mode
    assert [type(module) for module in plain.modules()] == [type(module) for module in model.modules()]
    assert all("weight" not in vars(module) for module in plain.modules())
    assert prepare_for_inference(model.eval(), torch.float32, CPU, rewrite=False) is model


def test_int8_on_a_gpu_is_refused() -> None:
    with pytest.raises(UsageError, match="int8 runs on the CPU only, not on cuda"):
        resolve_compute_type("int8", torch.device("cuda"))
    assert resolve_compute_type("int8", CPU) == torch.int8
