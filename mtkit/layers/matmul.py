"""Products with float32 weights on a CPU, by the faster of two libraries that are inside torch.

`F.linear` calls the BLAS that torch was built with: MKL on x86, which uses its AVX2 code on processors that Intel did
not make. oneDNN uses the widest instructions that it finds, and is twice as fast on AMD processors with AVX-512
(measured: see tools/benchmarks/NOTES.md). `chosen_library` measures both once per process; MTKIT_MATMUL=blas or onednn
decides without measuring.

Both libraries compute the same sums in another order, so bits differ between them: a training records its library and
continues with it (see `use_library`).
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.errors import UsageError


def is_autocast_on(x: Tensor) -> bool:
    """Return whether autocast is on for the device of `x`."""
    return x.device.type != "meta" and torch.is_autocast_enabled(x.device.type)


def compute_dtype(x: Tensor) -> torch.dtype:
    """Return the type of matrix products with `x`: autocast's if it is on, else that of `x`."""
    return torch.get_autocast_dtype(x.device.type) if is_autocast_on(x) else x.dtype


def no_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Return a context without autocast on the device of `x`."""
    device = x.device.type  # torch.amp.is_autocast_available, which is false of "meta", breaks graphs in torch 2.11
    return nullcontext() if device == "meta" else torch.autocast(device, enabled=False)


Library = Literal["blas", "onednn"]
LIBRARIES: tuple[Library, ...] = ("blas", "onednn")
VARIABLE = "MTKIT_MATMUL"

# A product of fewer multiplications is left to the BLAS: a call of oneDNN's operator takes about 10 µs more.
MIN_MULTIPLICATIONS = 1 << 20
# Of oneDNN, for a choice that noise does not change from one process to the next: it is 2.2 on AMD processors with
# fast AVX-512 (Zen 5), and between 0.9 and 1.1 on the others that were measured.
MIN_SPEEDUP = 1.5
WINS = 3  # rounds of trials that the choice must win: on a busy machine some rounds are wrong
TRIAL_SHAPE = (256, 256, 256)  # rows, inputs, outputs
TRIALS = 7

_library: Library | None = None  # of this process; None: not yet chosen


def chosen_library() -> Library:
    """Return the library of large products in this process; the first call takes some milliseconds.

    Raises:
        UsageError: the environment variable MTKIT_MATMUL has another value than blas, onednn or auto.
    """
    global _library
    if _library is None:
        _library = _requested_library() or _faster_library()
    return _library


def use_library(name: Library) -> bool:
    """Compute with this library from now on, unless MTKIT_MATMUL names another; return whether that was possible."""
    global _library
    if _requested_library() in (None, name) and (name == "blas" or has_onednn()):
        _library = name
    return _library == name


def products() -> dict[Library, Callable[[Tensor, Tensor], Tensor]]:
    """Return the product x W^T of each library that this installation of torch has."""
    return {"blas": F.linear, "onednn": _onednn} if has_onednn() else {"blas": F.linear}


def has_onednn() -> bool:
    """Return whether this installation of torch has oneDNN's operator for float32 products."""
    is_built: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return is_built and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def has_onednn_bf16() -> bool:
    """Return whether oneDNN's operator computes in bf16 on this processor."""
    name = "_is_mkldnn_bf16_supported"  # not documented, so that another build of torch may lack it
    return has_onednn() and hasattr(torch.ops.mkldnn, name) and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def affine(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b with gradients, as `F.linear`: [..., D_in] -> [..., D_out]."""
    function: type[_OneDNNLinear | _Bf16Linear] = _OneDNNLinear
    if is_autocast_on(x):  # in bf16 on a CPU oneDNN adds the bias, which `F.linear` writes before
        is_bf16 = compute_dtype(x) == torch.bfloat16 and x.device.type == "cpu" and not torch.compiler.is_compiling()
        if not is_bf16 or not has_onednn_bf16():
            return F.linear(x, weight, bias)
        function = _Bf16Linear
    elif not _is_onednn_product(x, weight):
        return F.linear(x, weight, bias)
    elif not torch.is_grad_enabled():
        return _onednn(x, weight, bias)
    flat = x.reshape(-1, x.size(-1))  # [N, D_in]; the result is no view, so that callers may overwrite it
    y: Tensor = function.apply(flat, weight, bias)  # type: ignore[no-untyped-call]
    return y.view(*x.shape[:-1], y.size(1))


def mm_transposed(a: Tensor, b: Tensor) -> Tensor:
    """A B^T of a [M, K] and b [N, K], without gradients; transposed views are not copied."""
    return _onednn(a, b) if _is_onednn_product(a, b) else a @ b.mT


def weight_grad(grad: Tensor, x: Tensor) -> Tensor:
    """Gradient G^T X [D_out, D_in] of a weight, from the gradients [N, D_out] of N outputs and the inputs [N, D_in]."""
    a, b = grad.mT, x.mT
    if not _is_onednn_product(a, b):
        return a @ x
    return _onednn(a, b) if a.size(0) <= b.size(0) else _onednn(b, a).mT  # few rows and many columns are faster


def _is_onednn_product(x: Tensor, weight: Tensor) -> bool:
    """Return whether oneDNN computes a product: float32, on a CPU, large enough for its overhead, and the choice."""
    return (
        x.numel() * weight.size(0) >= MIN_MULTIPLICATIONS
        and x.dtype == torch.float32 == weight.dtype
        and x.device.type == "cpu"
        and not torch.compiler.is_compiling()  # compiled and exported programs choose their own products
        and chosen_library() == "onednn"
    )


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return y


class _OneDNNLinear(torch.autograd.Function):
    """x W^T + b of x [N, D_in] by oneDNN, with its gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        (grad,) = grads  # [N, D_out]
        grad_x = mm_transposed(grad, weight.mT) if needs_x else None
        grad_weight = weight_grad(grad, x) if needs_weight else None
        return grad_x, grad_weight, grad.sum(0) if needs_bias else None


class _Bf16Linear(torch.autograd.Function):
    """x W^T + b of x [N, D_in] in bf16, with gradients in the types of x, W and b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        low, low_weight = x.to(torch.bfloat16), weight.to(torch.bfloat16)
        ctx.save_for_backward(low, low_weight)
        ctx.dtypes = x.dtype, weight.dtype, None if bias is None else bias.dtype
        return _onednn(low, low_weight, None if bias is None else bias.to(torch.bfloat16))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        low, low_weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        x_dtype, weight_dtype, bias_dtype = ctx.dtypes
        (grad,) = grads  # [N, D_out]
        grad_x = (grad @ low_weight).to(x_dtype) if needs_x else None
        grad_weight = (grad.mT @ low).to(weight_dtype) if needs_weight else None
        return grad_x, grad_weight, grad.sum(0).to(bias_dtype) if needs_bias else None


def _requested_library() -> Library | None:
    """Return the library of the environment variable; None: to be measured."""
    requests: dict[str, Library | None] = {"": None, "auto": None, "blas": "blas", "onednn": "onednn"}
    value = os.environ.get(VARIABLE, "")
    if value not in requests:
        raise UsageError(f"{VARIABLE}={value}: must be auto, blas or onednn")
    if requests[value] == "onednn" and not has_onednn():
        raise UsageError(f"{VARIABLE}=onednn: this installation of torch has no oneDNN; unset the variable")
    return requests[value]


def _faster_library() -> Library:
    """Return the library that first wins WINS rounds, on one thread: several wait for each other on a busy machine."""
    wins: Counter[Library] = Counter()
    rows, inputs, outputs = TRIAL_SHAPE
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            x, weight = torch.ones(rows, inputs), torch.ones(outputs, inputs)
            while max(wins.values(), default=0) < WINS:
                trials = [  # in turn, so that noise meets both
                    {name: seconds_of(partial(product, x, weight)) for name, product in products().items()}
                    for _ in range(TRIALS)
                ]
                blas, onednn = (min(each.get(name, math.inf) for each in trials) for name in LIBRARIES)
                wins["onednn" if onednn * MIN_SPEEDUP < blas else "blas"] += 1
    finally:
        torch.set_num_threads(threads)
    return wins.most_common(1)[0][0]


def seconds_of(call: Callable[[], object]) -> float:
    """Return the duration of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
