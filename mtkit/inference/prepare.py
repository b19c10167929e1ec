"""Preparation of a model for translation: compute type, device and rewrites.

Compute types: int8 multiplies 8-bit integers in projections, bf16 on a CPU 16-bit numbers; everything else computes in
float32. The native library rounds all projections, torch only large ones, where that saves time. float32, bf16 on a GPU
and bf16 without rewrites convert all weights. Measurements: tests/benchmarks/NOTES.md and
tests/benchmarks/decoding_speed.py.
"""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import nn

from mtkit.errors import UsageError
from mtkit.hardware import has_bf16
from mtkit.inference.absorbed_cross_attention import absorb_cross_attention
from mtkit.inference.bf16 import use_bf16_projections
from mtkit.inference.fuse import can_be_fused
from mtkit.inference.fused_decoder import FusedTransformer
from mtkit.inference.int8 import quantise_projections
from mtkit.inference.native.library import native
from mtkit.inference.native.model import native_transformer
from mtkit.inference.native.output import use_native_projections
from mtkit.inference.packed_output import pack_output
from mtkit.inference.pruned_argmax import use_pruned_argmax
from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.model import Transformer

ComputeType = Literal["auto", "float32", "bf16", "int8"]
NAMES: dict[torch.dtype, ComputeType] = {torch.float32: "float32", torch.bfloat16: "bf16", torch.int8: "int8"}


def resolve_compute_type(requested: ComputeType, device: torch.device) -> torch.dtype:
    """Type of the weights; `auto` is bf16 where the device has instructions for it, else float32.

    Raises:
        UsageError: the device does not support the type.
    """
    if requested == "int8" and device.type != "cpu":
        raise UsageError(f"compute type int8 runs on the CPU only, not on {device}; choose bf16 or auto there")
    if requested == "auto":
        return torch.bfloat16 if has_bf16(device) else torch.float32
    return next(dtype for dtype, name in NAMES.items() if name == requested)


def prepare_for_inference(
    model: TranslationModel,
    dtype: torch.dtype,
    device: torch.device,
    *,
    beam_size: int | None = None,
    rewrite: bool = True,
) -> TranslationModel:
    """A model that translates like `model`, with weights of another type, on another device, or faster.

    On a CPU, the native library (inference/native) runs the Transformers that it serves, and the projections of other
    models instead of pruned_argmax, packed_output and bf16 below. Rewrites for torch, the first two for one hypothesis
    per sentence only:

    - absorbed_cross_attention: the decoder attends to the encoder states themselves.
    - pruned_argmax: the most probable token is found without computing all logits; with int8 it is then exact.
    - packed_output: weights of the output projection in the order in which oneDNN reads them, on processors that gain.
    - `to_column_major`: other weights of projections in the layout that matrix products prefer.
    - fused_decoder: a step of the decoder in few operations.
    - bf16: projections have bf16 weights only where that saves time, so that the type is never slower than float32.

    And on all devices `flatten_module_lookup`: faster attribute access in Python.

    Args:
        model: not changed.
        dtype: type of the weights; torch.int8, and bf16 on a CPU with `rewrite`: of projections, without the native
            library of large ones only; the other weights are float32.
        device: where the result is.
        beam_size: hypotheses of a sentence that search will follow; None: unknown.
        rewrite: False: run the code in layers/ and models/ as it is written, for experiments with it and for
            validation during training. Results agree up to rounding. int8 replaces large projections in any case.

    Returns:
        A copy in eval mode, or `model` itself if nothing is to be done.
    """
    is_ready = all(p.dtype == dtype and p.device == device for p in model.parameters())
    on_cpu = rewrite and device.type == "cpu"
    if is_ready and not model.training and not on_cpu:
        return model
    is_mixed = dtype == torch.int8 or (on_cpu and dtype == torch.bfloat16)
    model = copy.deepcopy(model).to(device).eval()
    for parameter in model.parameters():
        # Buffers, such as the frequencies of positions, keep their precision.
        parameter.data = parameter.data.to(torch.float32 if is_mixed else dtype)
    if on_cpu and (served := native_transformer(model, dtype)) is not None:
        flatten_module_lookup(served)
        return served
    uses_native = on_cpu and native().supports(dtype)
    if on_cpu and beam_size == 1:
        absorb_cross_attention(model)
        if not uses_native:
            use_pruned_argmax(model)
    is_fusable = on_cpu and can_be_fused(model)  # in float32, whose rounding is below the tolerance
    if uses_native:
        use_native_projections(model, dtype)
    elif dtype == torch.int8:
        quantise_projections(model)
    elif is_mixed:
        use_bf16_projections(model)
    elif on_cpu and dtype == torch.float32:
        pack_output(model)
    if on_cpu:
        to_column_major(model)
    if is_fusable and isinstance(model, Transformer):
        model = FusedTransformer(model)
    if rewrite:
        flatten_module_lookup(model)
    return model


def to_column_major(model: nn.Module) -> None:
    """Store the weights [D_out, D_in] of projections by column; embeddings stay as they are.

    A product x W^T otherwise packs W in every call, which takes up to a third of a product of few rows.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(module.weight.detach().T.contiguous().T, requires_grad=False)


def flatten_module_lookup(model: nn.Module) -> None:
    """Copy submodules, parameters and buffers into each module's `__dict__`.

    Attribute access then bypasses `nn.Module.__getattr__`, which takes a sixth of the time of one line at a time. The
    model must not be modified afterwards.
    """
    for module in model.modules():
        vars(module).update(module.named_children())
        vars(module).update(module.named_parameters(recurse=False))
        vars(module).update(module.named_buffers(recurse=False))
