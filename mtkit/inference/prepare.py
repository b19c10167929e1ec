"""Preparation of a model of the reference implementation: compute type, device, and projections in the native library.

Compute types: int8 multiplies 8-bit integers in projections, bf16 on a CPU 16-bit numbers, both in the native library;
everything else computes in float32. Without the library weights are rounded to 8 bits and the products are those of
float32, and bf16 converts all weights, as on a GPU: slower, which is said once.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mtkit.errors import UsageError
from mtkit.hardware import has_bf16
from mtkit.inference.packing import INT8_MAX, MIN_ABS_MAX, PackedProjection, check
from mtkit.inference.support import ComputeType, CpuType, cpu_compute_type
from mtkit.layers.positions import Position
from mtkit.layers.projections import Projection
from mtkit.models.interface import TranslationModel
from mtkit.native.library import native, run_in_chunks

NAMES: dict[torch.dtype, CpuType] = {torch.float32: "float32", torch.bfloat16: "bf16", torch.int8: "int8"}


class NativeLinear(nn.Module):
    """y = x W^T + b with packed weights: float32, bfloat16, or int8 with a scale for each row of x and of W."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        """Pack weights [D_out, D_in] and a bias [D_out]."""
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.weight = weight.detach().float().contiguous()  # [D_out, D_in], for code that looks at weights
        vector = None if bias is None else bias.detach().float().numpy()
        self.packed = PackedProjection.of(self.weight.numpy(), vector, NAMES[dtype])
        functions: Any = native().functions
        self.project = functions.mtkit_project

    def forward(self, x: Tensor) -> Tensor:
        """[..., D_in] -> [..., D_out], in the type of x."""
        flat = x.reshape(-1, self.in_features).float().contiguous()  # [N, D_in]
        y = flat.new_empty(flat.size(0), self.out_features)
        linear = ctypes.byref(self.packed.linear)

        def project(first: int, rows: int) -> None:
            check(self.project(linear, flat[first:].data_ptr(), rows, y[first:].data_ptr()))

        run_in_chunks(project, flat.size(0), torch.get_num_threads())
        return y.view(*x.shape[:-1], self.out_features).to(x.dtype)


def projections(module: nn.Module) -> Iterator[tuple[nn.Module, str, Projection]]:
    """All projections below a module that are not in position encodings: the module above, the name, the projection."""
    for name, child in module.named_children():
        if type(child) is Projection:
            yield module, name, child
        elif not isinstance(child, Position):
            yield from projections(child)


def resolve_compute_type(requested: ComputeType, device: torch.device) -> torch.dtype:
    """Type of the weights; `auto` is bf16 where the device has instructions for it, else float32.

    Raises:
        UsageError: the device does not support the type.
    """
    if requested == "int8" and device.type != "cpu":
        raise UsageError(f"compute type int8 runs on the CPU only, not on {device}; choose bf16 or auto there")
    if device.type == "cpu":
        requested = cpu_compute_type(requested)
    elif requested == "auto":
        return torch.bfloat16 if has_bf16(device) else torch.float32
    return next(dtype for dtype, name in NAMES.items() if name == requested)


def prepare_for_inference(
    model: TranslationModel,
    dtype: torch.dtype,
    device: torch.device,
    *,
    rewrite: bool = True,
) -> TranslationModel:
    """A model that translates like `model`, with weights of another type, on another device, or faster.

    On a CPU, projections compute in the native library. Without it their weights are stored in the layout that matrix
    products prefer. On all devices attribute access in Python is made faster.

    Args:
        model: not changed.
        dtype: type of the weights; torch.int8, and bf16 on a CPU with `rewrite`: of projections, the other weights are
            float32.
        device: where the result is.
        rewrite: False: run the code in layers/ and models/ unchanged, for experiments with it and for
            validation during training. Results agree up to rounding.

    Returns:
        A copy in eval mode, or `model` itself if nothing is to be done.
    """
    is_ready = all(p.dtype == dtype and p.device == device for p in model.parameters())
    on_cpu = rewrite and device.type == "cpu"
    if is_ready and not model.training and not on_cpu:
        return model
    uses_native = on_cpu and native().functions is not None and dtype in NAMES
    is_mixed = dtype == torch.int8 or uses_native
    model = copy.deepcopy(model).to(device).eval()
    for parameter in model.parameters():
        # Buffers, such as the frequencies of positions, keep their precision.
        parameter.data = parameter.data.to(torch.float32 if is_mixed else dtype)
    if uses_native:
        for parent, name, projection in list(projections(model)):
            setattr(parent, name, NativeLinear(projection.weight, projection.bias, dtype))
    elif dtype == torch.int8:  # 8-bit integers times a scale for each output, as float32 numbers
        for _, _, projection in projections(model):
            weight = projection.weight.detach()
            scale = weight.abs().amax(1, keepdim=True).clamp(min=MIN_ABS_MAX) / INT8_MAX
            projection.weight = nn.Parameter((weight / scale).round() * scale, requires_grad=False)
    for module in model.modules():
        if on_cpu and isinstance(module, nn.Linear):
            # Weights [D_out, D_in] by column: a product x W^T otherwise packs W in every call, up to a third of
            # the time of a product of few rows.
            module.weight = nn.Parameter(module.weight.detach().T.contiguous().T, requires_grad=False)
        if rewrite:
            # Attribute access then bypasses `nn.Module.__getattr__`, which takes a sixth of the time of one line at a
            # time. The model must not be modified afterwards.
            vars(module).update(module.named_children())
            vars(module).update(module.named_parameters(recurse=False))
            vars(module).update(module.named_buffers(recurse=False))
    return model
