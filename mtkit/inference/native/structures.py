"""The structures of the native library, and projections packed for it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor

from mtkit.inference.int8 import ZERO_POINT, quantise
from mtkit.inference.native.library import TYPES, native

Pointer = ctypes.c_void_p


class Linear(ctypes.Structure):
    """A projection; see c/products.h."""

    _fields_ = (
        *((name, Pointer) for name in ("panels", "bias", "scale")),
        *((name, ctypes.c_int32) for name in ("inputs", "outputs", "type")),
    )


class Norm(ctypes.Structure):
    """A norm; see c/layers.h."""

    _fields_ = (("weight", Pointer), ("bias", Pointer), ("epsilon", ctypes.c_float), ("kind", ctypes.c_int32))


LINEARS = ("query_key_value", "out", "source_query", "source_key_value", "source_out", "inner", "outer")


class Layer(ctypes.Structure):
    """A layer of encoder or decoder; see c/layers.h."""

    _fields_ = (
        *((name, Linear) for name in LINEARS),
        *((name, Norm) for name in ("norm", "source_norm", "feed_forward_norm")),
        *((name, ctypes.c_int32) for name in ("heads", "source_heads", "activation", "is_pre_norm")),
    )


class StackStructure(ctypes.Structure):
    """The layers of encoder or decoder; see c/layers.h."""

    _fields_ = (
        ("layers", ctypes.POINTER(Layer)),
        ("final_norm", Norm),
        ("scale", ctypes.c_float),
        ("source_scale", ctypes.c_float),
        *((name, ctypes.c_int32) for name in ("num_layers", "d_model", "head_dim", "rotate_halves", "alignment_layer")),
    )


class KeysValues(ctypes.Structure):
    """Keys and values of a layer: a Cache or a Memory; see c/layers.h."""

    _fields_ = (("keys", Pointer), ("values", Pointer))


class StepArguments(ctypes.Structure):
    """Arguments of a decoder step; see Step in c/transformer.c."""

    _fields_ = (
        *((name, Pointer) for name in ("sentences", "slots", "lengths", "storage", "source_lengths", "offsets")),
        *((name, Pointer) for name in ("rotations", "attention")),
        *((name, ctypes.c_int32) for name in ("stride", "capacity", "first_position", "source_length")),
    )


class Pruned(ctypes.Structure):
    """An output projection that finds its largest output; see c/output.h."""

    _fields_ = (
        ("rounded", Linear),
        ("weight", Pointer),
        *((name, ctypes.c_float) for name in ("scale", "max_norm", "max_rounding_norm")),
    )


class Task(ctypes.Structure):
    """Arguments and results of a search; see Task in c/search.h."""

    _fields_ = (
        ("decoder", ctypes.POINTER(StackStructure)),
        ("output", ctypes.POINTER(Linear)),
        ("pruned", ctypes.POINTER(Pruned)),
        *((name, Pointer) for name in ("embeddings", "positions", "rotations", "ids", "excluded")),
        *((name, Pointer) for name in ("divisors", "summands", "states", "first_states")),
        *((name, Pointer) for name in ("source_lengths", "max_lengths", "min_lengths")),
        *((name, Pointer) for name in ("tokens", "log_probs", "scores", "lengths", "is_finished", "counts")),
        *((name, ctypes.c_float) for name in ("embedding_scale", "enough_ends")),
        *((name, ctypes.c_int32) for name in ("num_excluded", "bos", "width", "n_best", "num_sentences")),
        *((name, ctypes.c_int32) for name in ("max_source_length", "max_length", "next_sentence")),
    )


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
        kind = TYPES[torch.int8 if weight.dtype == torch.uint8 else weight.dtype]
        outputs, inputs = weight.shape
        weight = weight.contiguous()
        panels = torch.empty(functions.mtkit_packed_elements(outputs, inputs, kind), dtype=torch.int32)
        functions.mtkit_pack(address(weight), outputs, inputs, kind, address(panels))
        bias = None if bias is None else bias.detach().float().contiguous()
        linear = Linear(address(panels), address(bias), address(scale), inputs, outputs, kind)
        return cls(linear, (panels, bias, scale))
