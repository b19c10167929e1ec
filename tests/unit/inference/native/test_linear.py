"""Projections in the native library for models whose layers it lacks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mtkit.inference.native.library import native
from mtkit.inference.native.linear import NativeLinear
from mtkit.inference.native.model import NativeTransformer
from mtkit.inference.native.output import NativeOutput
from mtkit.inference.prepare import prepare_for_inference
from mtkit.layers.positions.base import Position
from mtkit.layers.projections import Projection
from mtkit.models.interface import TranslationModel
from tests.unit.inference.native.toy_models import REFUSED, build, right_padded
from tests.unit.inference.test_prepare import CONFIGS

pytestmark = pytest.mark.usefixtures("library")

CPU = torch.device("cpu")
ERROR = {torch.float32: 1e-5, torch.bfloat16: 0.05, torch.int8: 0.1}  # of logits, relative to the largest
MODELS = {**{f"{config.kind}-{i}": config for i, config in enumerate(CONFIGS[1:])}, **REFUSED}


@pytest.fixture(params=ERROR, ids=str)
def dtype(request) -> torch.dtype:
    if not native().supports(request.param):
        pytest.skip(f"the processor has no instructions for {request.param}")
    return request.param


def prepared(config, dtype: torch.dtype, **options) -> TranslationModel:
    model = prepare_for_inference(build(config), dtype, CPU, **options)
    assert not isinstance(model, NativeTransformer)
    return model


def logits(model: TranslationModel) -> list[Tensor]:
    """Of three steps, the last two of them with two hypotheses."""
    found, state, token = [], model.start(right_padded([5, 3, 4])), torch.tensor([2, 20, 30])
    for rows in (torch.arange(3).repeat_interleave(2), torch.tensor([1, 0, 2, 2, 5, 4]), torch.arange(6)):
        step = model.step(token, state)
        found.append(step.logits())
        state = step.state.select_rows(rows)
        token = torch.tensor([4, 5, 6, 7, 8, 9])
    return found


@torch.inference_mode()
@pytest.mark.parametrize("beam_size", [1, None])
@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_logits_are_near_those_of_the_written_layers(config, beam_size, dtype) -> None:
    model = prepared(config, dtype, beam_size=beam_size)
    assert type(model.output) is NativeOutput
    for found, expected in zip(logits(model), logits(build(config)), strict=True):
        assert found.dtype == torch.float32
        assert (found - expected).abs().max() < ERROR[dtype] * expected.abs().max()


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_all_projections_but_those_of_positions_are_replaced(config, dtype) -> None:
    model = prepared(config, dtype)
    in_positions = {id(each) for module in model.modules() if isinstance(module, Position) for each in module.modules()}
    assert all(id(module) in in_positions for module in model.modules() if type(module) is Projection)
    assert any(isinstance(module, NativeLinear) for module in model.modules())


@torch.inference_mode()
def test_the_type_and_the_shape_of_the_input_are_kept(dtype) -> None:
    layer, x = nn.Linear(24, 40), torch.randn(2, 3, 24)
    linear = NativeLinear(layer.weight, layer.bias, dtype)
    assert linear(x).shape == (2, 3, 40)
    assert linear(x[:, :0]).shape == (2, 0, 40)
    assert linear(x.bfloat16()).dtype == torch.bfloat16
    assert torch.equal(linear(x.transpose(0, 1)), linear(x).transpose(0, 1))  # not contiguous


def test_without_rewrites_no_projection_is_replaced() -> None:
    model = prepared(CONFIGS[2], torch.float32, rewrite=False)
    assert not any(isinstance(module, NativeLinear) for module in model.modules())
