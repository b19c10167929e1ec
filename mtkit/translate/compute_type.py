"""The numbers that a model translates with.

int8 is products of bytes (see Int8Linear) in the large projections, and float32 in between. Measured with torch 2.13 on
one core of an AMD EPYC (Zen 5, VNNI), milliseconds of a product [128, 256] · [256, 1024] and of [128, 256] ·
[256, 8000]: float32 0.75 and 7.1, bf16 0.37 and 3.2, `torch._int_mm` 0.17 and 1.4, with scales and bias 0.25 and 2.0.
oneDNN's `qlinear_pointwise` took 400 ms for signed bytes, which is why wide projections give it unsigned ones;
`torch.ao.quantization` is deprecated. Attention in float32 takes much of it back (tests/benchmarks/decoding_speed.py
measures the whole).

Weights of float32 lie by column. On one thread of an Intel Xeon (Sapphire Rapids, MKL), GFLOP/s without a bias, by row
and by column: [64, 256] · [256, 1024] 147 and 185, [64, 256] · [256, 8000] 110 and 138, [640, 256] · [256, 8000] 147
and 149.
"""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import nn

from mtkit.errors import UsageError
from mtkit.hardware import has_bf16
from mtkit.models.absorbed_biases import absorb_biases
from mtkit.models.absorbed_memory import absorb_memory
from mtkit.models.interface import TranslationModel
from mtkit.models.quantised import quantise_projections, screen_output

ComputeType = Literal["auto", "float32", "bf16", "int8"]
NAMES: dict[torch.dtype, ComputeType] = {torch.float32: "float32", torch.bfloat16: "bf16", torch.int8: "int8"}


def resolve_compute_type(wanted: ComputeType, device: torch.device) -> torch.dtype:
    """The type of the weights; `auto` is bf16 only where there are instructions for it.

    Raises:
        UsageError: a type that the device has not.
    """
    if wanted == "int8" and device.type != "cpu":
        raise UsageError(f"compute type int8 is for the processor, not for {device}; choose bf16 or auto there")
    if wanted == "auto":
        return torch.bfloat16 if has_bf16(device) else torch.float32
    return next(dtype for dtype, name in NAMES.items() if name == wanted)


def prepare(
    model: TranslationModel, dtype: torch.dtype, device: torch.device, *, hypotheses: int | None = None
) -> TranslationModel:
    """The model ready to translate: a copy, unless it is as it must be already.

    Args:
        model: not changed.
        dtype: of the weights, int8 for those of projections.
        device: where it shall be.
        hypotheses: of a sentence, which search will follow; None: nobody knows. What is computed is the same, but that
            for one the output of int8 is exact.
    """
    on_processor = device.type == "cpu" and dtype != torch.bfloat16  # with products of float32, some or all
    same = all(p.dtype == dtype and p.device == device for p in model.parameters())
    if same and not model.training and not on_processor:
        return model
    model = copy.deepcopy(model).to(device).eval()
    for parameter in model.parameters():
        # buffers, such as the frequencies of positions, keep their precision
        parameter.data = parameter.data.to(torch.float32 if dtype == torch.int8 else dtype)
    if on_processor and hypotheses == 1:
        absorb_memory(model)
        screen_output(model)
    if dtype == torch.int8:
        quantise_projections(model)
    if on_processor:
        absorb_biases(model)
        lay_out_by_column(model)
    bring_to_hand(model)
    return model


def lay_out_by_column(model: TranslationModel) -> None:
    """Lay the weights [D_out, D_in] of projections out column by column, those of embeddings stay as they are.

    Otherwise every product turns them round anew, which for few rows takes as long as a third of the product.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(module.weight.detach().T.contiguous().T, requires_grad=False)


def bring_to_hand(model: TranslationModel) -> None:
    """Put parts and weights where Python finds an attribute at once; a module's own way takes a call for each.

    One line at a time that took a sixth of the time (27 ms for 32 ms). The model must not be changed any more.
    """
    for module in model.modules():
        vars(module).update(module.named_children())
        vars(module).update(module.named_parameters(recurse=False))
        vars(module).update(module.named_buffers(recurse=False))
