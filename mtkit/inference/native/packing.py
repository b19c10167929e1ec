"""Projections packed for the native library."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.inference.int8 import ZERO_POINT, quantise
from mtkit.inference.native.library import native, type_number
from mtkit.inference.native.structures import Linear


def address(tensor: Tensor | None) -> int | None:
    """Return the address of a contiguous tensor, which its owner must keep alive; None for None."""
    return None if tensor is None else tensor.data_ptr()


def check(succeeded: int) -> None:
    """Raise torch's error of exhausted memory unless a function of the library succeeded."""
    if not succeeded:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory (native library)")


@dataclass(frozen=True)
class PackedLinear:
    """A projection in the form of the library, with the tensors that it points to.

    Attributes:
        linear: the structure.
        tensors: keep its memory alive.
    """

    linear: Linear
    tensors: tuple[Tensor | None, ...]

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> PackedLinear:
        """Pack weights [D_out, D_in] and a bias [D_out] as float32, bfloat16, or int8 with a scale for each output."""
        weight = weight.detach().float()
        if dtype != torch.int8:
            return cls.of_converted(weight.to(dtype), bias)
        rounded, scale = quantise(weight)
        return cls.of_converted((rounded + ZERO_POINT).to(torch.uint8), bias, scale.squeeze(1).contiguous())

    @classmethod
    def of_converted(cls, weight: Tensor, bias: Tensor | None, scale: Tensor | None = None) -> PackedLinear:
        """Pack weights of their final type.

        Args:
            weight: [D_out, D_in] float32, bfloat16, or uint8: integers with 128 added.
            bias: [D_out] or None.
            scale: [D_out] float32, of integers; None: they are used without one.

        Raises:
            ValueError: there is no native library.
        """
        functions = native().functions
        if functions is None:
            raise ValueError("there is no native library")
        kind = type_number(torch.int8 if weight.dtype == torch.uint8 else weight.dtype)
        outputs, inputs = weight.shape
        weight = weight.contiguous()
        panels = torch.empty(functions.mtkit_packed_elements(outputs, inputs, kind), dtype=torch.int32)
        functions.mtkit_pack(address(weight), outputs, inputs, kind, address(panels))
        bias = None if bias is None else bias.detach().float().contiguous()
        linear = Linear(address(panels), address(bias), address(scale), inputs, outputs, kind)
        return cls(linear, (panels, bias, scale))
