"""Products with float32 weights on a CPU, in float32 or rounded to bf16, by the fastest of three libraries.

`blas` is that of torch's own products: MKL on x86, which uses its AVX2 code on processors that Intel did not make, and
for bf16 oneDNN. `onednn`, also inside torch, uses the widest instructions that it finds. It compiles a kernel for each
shape, which in training is a new one with nearly every batch. `native` is the native library, which compiles nothing,
reads operands of any layout, and rounds them on the way (measured: see tools/benchmarks/NOTES.md). `chosen_library`
measures once per process; MTKIT_MATMUL=blas, onednn or native decides without measuring.

The libraries compute the same sums in another order, so bits differ between them: a training records its libraries and
continues with them (see `use_library`).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from mtkit.errors import UsageError
from mtkit.layers import native_kernels
from mtkit.layers.native_kernels import Panels
from mtkit.native.library import native


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


Library = Literal["blas", "onednn", "native"]
LIBRARIES: tuple[Library, ...] = get_args(Library)
VARIABLE = "MTKIT_MATMUL"

# A product of fewer multiplications is left to torch: a call takes about 10 µs more in oneDNN, and 3 µs in the native
# library.
MIN_MULTIPLICATIONS: dict[Library, int] = {"onednn": 1 << 20, "native": 1 << 17}
# Speed beside the others for which a library is chosen, so that noise does not change the choice from one process to
# the next. oneDNN's is 2.2 times that of the BLAS on AMD processors with fast AVX-512 (Zen 5), and between 0.9 and 1.1
# times on the others that were measured. The native library need not be faster, since it compiles nothing.
MIN_SPEEDUP: dict[Library, float] = {"onednn": 1.5, "native": 0.8}
WINS = 3  # rounds of trials that the choice must win: on a busy machine some rounds are wrong
TRIAL_SHAPE = (256, 256, 256)  # rows, inputs, outputs
TRIALS = 7

_library: dict[torch.dtype, Library] = {}  # of this process, by the type of the numbers that are multiplied


def chosen_library(dtype: torch.dtype = torch.float32) -> Library:
    """Return the library of large products in float32 or bf16 in this process; the first call takes some milliseconds.

    Raises:
        UsageError: the environment variable MTKIT_MATMUL has another value than a library or auto.
    """
    is_lost = _library.get(dtype) == "native" and not native_kernels.is_available()  # for this number of threads
    if dtype not in _library or is_lost:
        requested = _requested_library()
        _library[dtype] = requested if requested in products(dtype) else _faster_library(dtype)
    return _library[dtype]


def use_library(name: Library, dtype: torch.dtype = torch.float32) -> bool:
    """Compute with this library from now on, unless MTKIT_MATMUL names another; return whether that was possible."""
    if _requested_library() in (None, name) and name in products(dtype):
        _library[dtype] = name
    return _library.get(dtype) == name


def products(dtype: torch.dtype = torch.float32) -> dict[Library, Callable[[Tensor, Tensor], Tensor]]:
    """Return the product x W^T of float32 numbers by each library that is here, in float32 or rounded to bf16."""
    found: dict[Library, Callable[[Tensor, Tensor], Tensor]] = {"blas": F.linear}
    if has_onednn() if dtype == torch.float32 else has_onednn_bf16():
        found["onednn"] = _onednn
    if native_kernels.is_available():
        found["native"] = lambda x, weight: native_kernels.multiply(x, weight.mT, dtype=dtype)
    return found


def has_onednn() -> bool:
    """Return whether this installation of torch has oneDNN's operator for float32 products."""
    is_built: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return is_built and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def has_onednn_bf16() -> bool:
    """Return whether oneDNN's operator computes in bf16 on this processor."""
    name = "_is_mkldnn_bf16_supported"  # not documented, so that another build of torch may lack it
    return has_onednn() and hasattr(torch.ops.mkldnn, name) and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def affine(x: Tensor, weight: Tensor, bias: Tensor | None = None, panels: Panels | None = None) -> Tensor:
    """x W^T + b with gradients, as `F.linear`: [..., D_in] -> [..., D_out]. `panels`: see `multiply`."""
    dtype = compute_dtype(x)
    library = _library_for(x, weight, dtype)
    if library == "blas":
        return F.linear(x, weight, bias)
    if library == "onednn" and dtype == torch.float32 and not torch.is_grad_enabled():
        return _onednn(x, weight, bias)
    flat = x.reshape(-1, x.size(-1))  # [N, D_in]; the result is no view, so that callers may overwrite it
    y: Tensor = _Linear.apply(flat, weight, bias, library, dtype, panels)  # type: ignore[no-untyped-call]
    return y.view(*x.shape[:-1], y.size(1))


def multiply(
    a: Tensor, b: Tensor, dtype: torch.dtype, out_dtype: torch.dtype = torch.float32, panels: Panels | None = None
) -> Tensor:
    """A B of a [M, K] and b [K, N], without gradients, of numbers that are rounded to `dtype`.

    The result is in `out_dtype`, or in `dtype` if the library writes that. Transposed views are not copied. What a
    library prepares of `b` is kept in `panels` for further products with it.
    """
    return _multiply(_library_for(a, b.mT, dtype), a, b, dtype, out_dtype, panels)


def add_product(total: Tensor, a: Tensor, b: Tensor, dtype: torch.dtype) -> None:
    """total += A B; see `multiply`."""
    if total.dtype == torch.float32 and _library_for(a, b.mT, dtype) == "native":
        native_kernels.multiply(a, b, dtype=dtype, add_to=total)
    else:
        total += multiply(a, b, dtype)


def operand(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A matrix as products in `dtype` read it most quickly: rounded, unless their library does that itself."""
    if x.dtype == dtype:
        return x
    can_choose = x.device.type == "cpu" and dtype in native_kernels.DTYPES and not torch.compiler.is_compiling()
    return x if can_choose and x.dtype == torch.float32 and chosen_library(dtype) == "native" else x.to(dtype)


def _library_for(x: Tensor, weight: Tensor, dtype: torch.dtype) -> Library:
    """Return the library of a product x W^T: of float32 or bf16, on a CPU, and large enough for its overhead."""
    multiplications = x.numel() * weight.size(0)
    can_choose = (
        multiplications >= min(MIN_MULTIPLICATIONS.values())
        and x.device.type == "cpu"
        and dtype in native_kernels.DTYPES
        and {x.dtype, weight.dtype} <= {torch.float32, dtype}
        and not torch.compiler.is_compiling()  # compiled and exported programs choose their own products
    )
    if not can_choose:
        return "blas"
    library = chosen_library(dtype)
    return library if multiplications >= MIN_MULTIPLICATIONS.get(library, 0) else "blas"


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return y


def _multiply(
    library: Library,
    a: Tensor,
    b: Tensor,
    dtype: torch.dtype,
    out_dtype: torch.dtype = torch.float32,
    panels: Panels | None = None,
) -> Tensor:
    """See `multiply`."""
    if library == "native":
        return native_kernels.multiply(a, b, dtype=dtype, out_dtype=out_dtype, panels=panels)
    if library == "onednn" and dtype == torch.float32:
        few, many = a, b.mT  # few rows and many columns are faster
        return _onednn(few, many) if a.size(0) <= b.size(1) or a.stride(-1) == 1 else _onednn(many, few).mT
    return a.to(dtype) @ b.to(dtype) if dtype in native_kernels.DTYPES else a @ b


class _Linear(torch.autograd.Function):
    """x W^T + b of x [N, D_in], multiplied in `dtype`, with gradients in the types of x, W and b."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        library: Library,
        dtype: torch.dtype,
        panels: Panels | None,
    ) -> Tensor:
        ctx.library, ctx.dtype = library, dtype
        ctx.dtypes = x.dtype, weight.dtype, None if bias is None else bias.dtype
        if library != "native":
            x, weight = x.to(dtype), weight.to(dtype)
            bias = None if bias is None else bias.to(dtype)
        ctx.save_for_backward(x, weight)
        if library == "native":
            return native_kernels.multiply(x, weight.mT, dtype=dtype, out_dtype=dtype, bias=bias, panels=panels)
        return _onednn(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        x_dtype, weight_dtype, bias_dtype = ctx.dtypes
        (grad,) = grads  # [N, D_out]
        grad_x = _multiply(ctx.library, grad, weight, ctx.dtype, x_dtype).to(x_dtype) if needs_x else None
        grad_weight = grad_bias = None
        if needs_weight and needs_bias and ctx.library == "native" and grad.stride(1) == 1:
            grad_bias = torch.empty(grad.size(1))  # a sum over what the product reads
            grad_weight = native_kernels.multiply(grad.mT, x, dtype=ctx.dtype, row_sums=grad_bias).to(weight_dtype)
        elif needs_weight:
            grad_weight = _multiply(ctx.library, grad.mT, x, ctx.dtype).to(weight_dtype)
        if needs_bias:
            grad_bias = (grad.sum(0) if grad_bias is None else grad_bias).to(bias_dtype)
        return grad_x, grad_weight, grad_bias, None, None, None


def _requested_library() -> Library | None:
    """Return the library of the environment variable; None: to be measured."""
    requests: dict[str, Library | None] = {"": None, "auto": None, **{name: name for name in LIBRARIES}}
    value = os.environ.get(VARIABLE, "")
    if value not in requests:
        raise UsageError(f"{VARIABLE}={value}: must be auto, {', '.join(LIBRARIES[:-1])} or {LIBRARIES[-1]}")
    if requests[value] not in (None, *products()):
        reason = {
            "onednn": "this installation of torch has no oneDNN",
            "native": f"there is no native library ({native().reason})",
        }[value]
        raise UsageError(f"{VARIABLE}={value}: {reason}; unset the variable")
    return requests[value]


def _faster_library(dtype: torch.dtype) -> Library:
    """Return the library that first wins WINS rounds, on one thread: several wait for each other on a busy machine."""
    wins: Counter[Library] = Counter()
    rows, inputs, outputs = TRIAL_SHAPE
    threads, candidates = torch.get_num_threads(), products(dtype)
    torch.set_num_threads(1)
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            x, weight = torch.ones(rows, inputs), torch.ones(outputs, inputs)
            calls = {  # the native library rounds by itself
                name: partial(product, *((x, weight) if name == "native" else (x.to(dtype), weight.to(dtype))))
                for name, product in candidates.items()
            }
            while max(wins.values(), default=0) < WINS:
                wins[_fastest(calls)] += 1
    finally:
        torch.set_num_threads(threads)
    return wins.most_common(1)[0][0]


def _fastest(calls: Mapping[Library, Callable[[], object]]) -> Library:
    """Return the winner of one round of trials, by MIN_SPEEDUP."""
    trials = [{name: seconds_of(call) for name, call in calls.items()} for _ in range(TRIALS)]  # noise meets all
    seconds = {name: min(trial[name] for trial in trials) for name in calls}
    best: Library = "blas"
    for name in calls:
        if seconds[name] * MIN_SPEEDUP.get(name, 1) < seconds[best]:
            best = name
    return best


def seconds_of(call: Callable[[], object]) -> float:
    """Return the duration of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
