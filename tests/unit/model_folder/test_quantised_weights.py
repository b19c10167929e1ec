"""Weights in 8 and 4 bits: error bounds, size, idempotence, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from mtkit.errors import DataError
from mtkit.inference.prepare import NativeLinear
from mtkit.io.finite import check_finite
from mtkit.layers.projections import linear
from mtkit.model_folder.folder import weight_types, with_weights
from mtkit.model_folder.weights_file import (
    GROUP_SIZE,
    StoredWeights,
    dequantised_header,
    quantise_tensors,
    read_weights,
)
from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.config import TransformerConfig
from mtkit.native.library import native
from mtkit.training.checkpoints.tensor_file import DTYPES, write_tensors
from mtkit.training.weights import weights

CONFIG = TransformerConfig(d_model=64, d_ff=64, num_heads=2, encoder_layers=1, decoder_layers=1)


def build() -> TranslationModel:
    return CONFIG.build(100, 100)


def build_from(path: Path) -> TranslationModel:
    arrays = read_weights(path, lambda: weight_types(CONFIG, (100, 100)), remedy="again")
    return with_weights(CONFIG, (100, 100), arrays)


def tensors() -> dict[str, Tensor]:
    torch.manual_seed(0)
    return weights(build())


def dequantise_tensors(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    arrays = StoredWeights({name: numpy_of(tensor) for name, tensor in stored.items()})
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def test_int8_rounds_to_the_nearest_multiple_of_the_scale_of_a_row() -> None:
    for name, value in dequantise_tensors(quantise_tensors(tensors(), "int8")).items():
        own = tensors()[name]
        if own.dim() == 2 and own.numel() >= 1024:
            bound = own.abs().amax(1, keepdim=True) / 127 / 2
            assert bool(((value - own).abs() <= bound * 1.001).all()), name
            assert not torch.equal(value, own)
        else:
            assert torch.equal(value, own), name


def test_int4_is_the_best_of_the_scales_by_an_obvious_loop() -> None:
    weight = torch.randn(32, 64)
    (found,) = dequantise_tensors(quantise_tensors({"w": weight}, "int4")).values()
    for row in (0, 31):
        for group in (slice(0, GROUP_SIZE), slice(GROUP_SIZE, 2 * GROUP_SIZE)):
            own, errors = weight[row, group], []
            for shrinkage in (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7):
                scale = float((own.abs().max() / 7 * shrinkage).half())
                rounded = torch.tensor([max(-7, min(7, round(float(x) / scale))) * scale for x in own])
                errors.append(float((rounded - own).square().sum()))
            assert float((found[row, group] - own).square().sum()) == pytest.approx(min(errors), rel=1e-4)


@pytest.mark.parametrize("storage", ["int8", "int4"])
def test_quantising_again_changes_nothing(storage) -> None:
    stored = quantise_tensors(tensors(), "int8")
    again = quantise_tensors(dequantise_tensors(stored), "int8")
    assert all(torch.equal(again[name], tensor) for name, tensor in stored.items() if tensor.dtype == torch.int8)


@pytest.mark.skipif(native().functions is None, reason="no native library")
def test_computation_in_int8_has_the_integers_of_the_file() -> None:
    layer = linear(64, 32)
    stored = quantise_tensors({"weight": layer.weight.detach()}, "int8")
    weight, one_hot = dequantise_tensors(stored)["weight"], torch.eye(64)
    columns = NativeLinear(weight, None, torch.int8)(one_hot) / stored["weight.scale"].T  # [64, 32]
    torch.testing.assert_close(columns.T, stored["weight"].float(), rtol=1e-5, atol=1e-5)


def numpy_of(tensor: Tensor) -> NDArray[Any]:
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def test_bf16_rounds_to_the_nearest_and_stored_weights_stay() -> None:
    stored = quantise_tensors(tensors(), "bf16")
    for name, value in dequantise_tensors(stored).items():
        own = tensors()[name]
        is_matrix = own.dim() == 2 and own.numel() >= 1024
        assert torch.equal(value, own.bfloat16().float() if is_matrix else own), name
    for storage in ("bf16", "int8", "int4", "sparse"):
        stored = quantise_tensors(tensors(), storage)
        again = quantise_tensors(stored, storage)
        assert all(torch.equal(again[name], each) for name, each in stored.items())


@pytest.mark.parametrize("storage", ["float32", "bf16", "int8", "int4", "sparse"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), None])
def test_nan_and_infinity_are_found_in_any_storage(storage, value) -> None:
    weight = torch.randn(64, 64)
    weight[3, 5] = -3e38 if value is None else value
    if storage == "int4" and value is None:
        weight[3, 5] = -4e5  # its scales have 16 bits
    stored = {name: numpy_of(each) for name, each in quantise_tensors({"w": weight}, storage).items()}
    if value is None:
        check_finite(stored, Path("model"))
    else:
        with pytest.raises(DataError, match=r"model: the tensor w.* contains NaN or infinity"):
            check_finite(stored, Path("model"))


def test_weights_are_computed_one_by_one() -> None:
    arrays = StoredWeights({name: numpy_of(each) for name, each in quantise_tensors(tensors(), "int8").items()})
    name = "encoder.0.feed_forward.inner.weight"
    assert arrays[name] is not arrays[name]
    assert name in arrays
    assert f"{name}.scale" not in arrays
    assert len(arrays) == len(tensors())


@pytest.mark.parametrize(("storage", "bits"), [("bf16", 17), ("int8", 9), ("int4", 5)])
def test_size(storage, bits) -> None:
    weight = {"w": torch.randn(256, 256)}
    size = sum(each.numel() * each.element_size() for each in quantise_tensors(weight, storage).values())
    assert 8 * size < bits * 256 * 256


def test_tables_and_odd_widths_keep_8_bits() -> None:
    stored = quantise_tensors({"a.table.weight": torch.randn(64, 64), "odd": torch.randn(64, 33)}, "int4")
    assert {stored[name].dtype for name in ("a.table.weight", "odd")} == {torch.int8}
    zeros = dequantise_tensors(quantise_tensors({"w": torch.zeros(64, 64)}, "int4"))["w"]
    assert torch.equal(zeros, torch.zeros(64, 64))


@pytest.mark.parametrize("storage", ["float32", "bf16", "int8", "int4", "sparse"])
def test_a_model_is_built_from_any_storage(tmp_path: Path, storage) -> None:
    stored = quantise_tensors(tensors(), storage)
    write_tensors(tmp_path / "w", stored)
    model = build_from(tmp_path / "w")
    for name, tensor in dequantise_tensors(stored).items():
        assert torch.equal(weights(model)[name], tensor)


def test_a_mask_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    name = "encoder.0.feed_forward.inner.weight"
    stored = quantise_tensors(tensors(), "sparse")
    header = {name: (DTYPES[each.dtype], tuple(each.shape)) for name, each in stored.items()}
    assert dequantised_header(header) == {name: ("F32", tuple(each.shape)) for name, each in tensors().items()}
    write_tensors(tmp_path / "w", {**stored, name: stored[name][1:].contiguous()})
    with pytest.raises(DataError, match=rf"damaged: {name}: \d+ weights, but its mask shows \d+; again"):
        build_from(tmp_path / "w")


def test_header_and_refusals(tmp_path: Path) -> None:
    stored = quantise_tensors(tensors(), "int4")
    header = {name: (DTYPES[each.dtype], tuple(each.shape)) for name, each in stored.items()}
    assert dequantised_header(header) == {name: ("F32", tuple(each.shape)) for name, each in tensors().items()}
    name = "encoder.0.feed_forward.inner.weight"
    broken = [
        {name + ".scale": stored[name + ".scale"][:, :1].contiguous()},
        {name: stored[name][:, :16].contiguous()},
        {name: torch.zeros(64, 64, dtype=torch.int8)},
    ]
    for change in broken:
        write_tensors(tmp_path / "w", {**stored, **change})
        with pytest.raises(DataError, match=r"the weights do not match the model: .*again"):
            build_from(tmp_path / "w")
