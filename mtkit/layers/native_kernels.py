"""Kernels of training on a CPU from the native library (mtkit/native/c/training.h), with their gradients.

They compute what layers compute otherwise with several operations of torch. MTKIT_NATIVE=0 turns them off. A compiled
or exported program never contains them.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mtkit.native.library import (
    CONSTANTS,
    AdditiveScores,
    Dropped,
    HeadsStructure,
    Matrix,
    MatrixProduct,
    SoftmaxRows,
    Threads,
    TrainedAttention,
    native,
)

DTYPES = (torch.float32, torch.bfloat16)


@cache
def _parallel() -> int | None:
    """Address of the function that calls another one on the threads of torch; None: there is none."""
    folder = Path(torch.__file__).parent / "lib"
    for name in [*map(str, sorted(folder.glob("libgomp*"))), "libgomp.so.1"]:
        try:
            return ctypes.cast(ctypes.CDLL(name, mode=os.RTLD_NOLOAD).GOMP_parallel, ctypes.c_void_p).value
        except (OSError, AttributeError):
            continue
    return None


@cache
def _threads(count: int) -> ctypes.Structure:
    return Threads(_parallel(), count)


def is_available() -> bool:
    """Return whether there is a library, which runs on as many threads as torch."""
    return native().functions is not None and (torch.get_num_threads() == 1 or _parallel() is not None)


_is_used = True  # of this process, by softmax and attention; products choose for themselves (matmul.py)


def use_kernels(name: str) -> None:
    """Compute softmax and attention by the kernels that `kernels_in_use` returned before, if they are here."""
    global _is_used
    _is_used = name != "torch"


def kernels_in_use() -> str:
    """Return what computes softmax and attention of training: torch, or the native library of an instruction set."""
    return f"native {native().reason.partition(',')[0]}" if _is_used and is_available() else "torch"


def _pointer(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def _matrix(x: Tensor) -> ctypes.Structure:
    return Matrix(x.data_ptr(), *x.stride(), x.dtype == torch.bfloat16, *x.shape)


class Panels:
    """The second operand of several products as the kernel reads it; the first product fills it."""

    memory: Tensor | None = None


def multiply(
    a: Tensor,
    b: Tensor,
    *,
    dtype: torch.dtype,
    out_dtype: torch.dtype = torch.float32,
    bias: Tensor | None = None,
    add_to: Tensor | None = None,
    row_sums: Tensor | None = None,
    panels: Panels | None = None,
) -> Tensor:
    """A B + b of a [M, K] and b [K, N], with sums in float32.

    Args:
        a: float32 or bf16, of any layout.
        b: the same.
        dtype: to which the numbers of both are rounded, float32 or bf16.
        out_dtype: of the result, float32 or bf16.
        bias: [N].
        add_to: float32 [M, N], to which the product is added; then it is the result.
        row_sums: float32 [M], into which the sums of the rows of a transposed `a` are written.
        panels: of `b`, which later products with it reuse.

    Raises:
        MemoryError: there is not enough memory for a copy of the operands.
    """
    inputs_at_once = CONSTANTS["BLOCK_GROUPS"] * (2 if dtype == torch.bfloat16 else 1)
    if a.size(1) > inputs_at_once and out_dtype != torch.float32:  # sums are not rounded in between
        return multiply(a, b, dtype=dtype, bias=bias, panels=panels).to(out_dtype)
    a, b = (x if 1 in x.stride() else x.contiguous() for x in (a, b))
    bias = None if bias is None else bias.to(torch.float32).contiguous()
    out = torch.empty(a.size(0), b.size(1), dtype=out_dtype) if add_to is None else add_to
    if not a.size(1):
        return out if add_to is not None else out.zero_() if bias is None else out.copy_(bias.expand_as(out))
    is_packed = panels is not None and panels.memory is not None
    if panels is not None:
        groups, width = -(-a.size(1) // (2 if dtype == torch.bfloat16 else 1)), 2 * _lanes()
        shape = torch.Size([groups, -(-b.size(1) // width) * width])
        if panels.memory is None:
            panels.memory = torch.empty(shape, dtype=torch.int32)
        elif panels.memory.shape != shape:
            raise ValueError("these are the panels of an operand of other size")
    product = MatrixProduct(
        a=_matrix(a),
        b=_matrix(b),
        bias=_pointer(bias),
        panels=None if panels is None else _pointer(panels.memory),
        is_packed=is_packed,
        row_sums=_pointer(row_sums),
        c=out.data_ptr(),
        c_stride=out.stride(0),
        c_is_bfloat16=out.dtype == torch.bfloat16,
        adds=add_to is not None,
        type=CONSTANTS["BFLOAT16" if dtype == torch.bfloat16 else "FLOAT32"],
    )
    _call("mtkit_multiply", product)
    return out


def _call(name: str, task: ctypes.Structure) -> None:
    library: Any = native().functions
    if getattr(library, name)(byref(task), byref(_threads(torch.get_num_threads()))):
        raise MemoryError("memory is exhausted in the native library")


def _can_run(x: Tensor) -> bool:
    """Return whether kernels compute with numbers like these: on a CPU, and turned on."""
    is_eager_on_cpu = not torch.compiler.is_compiling() and x.device.type == "cpu"
    return is_eager_on_cpu and x.dtype in DTYPES and x.numel() > 0 and _is_used and is_available()


def can_normalise(logits: Tensor, bias: Tensor | None) -> bool:
    """Return whether `normalise_` computes the probabilities of these logits."""
    is_bias_read = bias is None or (bias.dtype == torch.float32 and bias.is_contiguous())
    return is_bias_read and logits.is_contiguous() and _can_run(logits)


def normalise_(logits: Tensor, bias: Tensor | None, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Overwrite logits [n, V], float32 or bf16, with the probabilities of the logits plus a bias [V] in float32.

    Returns:
        The largest logit, the logit of the target [n], and the sum of exp(logit - largest), [n, 1] each.
    """
    rows, columns = logits.shape
    results = torch.empty(3, rows, 1)
    failed = torch.zeros(1, dtype=torch.int32)
    pointers = dict(zip(("maximum", "target_logit", "norm"), (each.data_ptr() for each in results), strict=True))
    task = SoftmaxRows(
        logits=logits.data_ptr(),
        bias=_pointer(bias),
        target=target.data_ptr(),
        failed=failed.data_ptr(),
        rows=rows,
        columns=columns,
        is_bfloat16=logits.dtype == torch.bfloat16,
        **pointers,
    )
    _call("mtkit_softmax_rows", task)
    maximum, target_logit, norm = results
    return maximum, target_logit, norm


@cache
def _lanes() -> int:
    library = native().functions
    return 0 if library is None else int(library.mtkit_lanes())


def can_attend(q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None) -> bool:
    """Return whether `attend` computes attention from q [B, H, T, K] to k and v [B, G, S, K]: in training on a CPU."""
    return (
        q.requires_grad
        and torch.is_grad_enabled()
        and q.dtype == k.dtype == v.dtype
        and v.size(3) == q.size(3)
        and q.size(1) == k.size(1)
        and k.numel() > 0
        and (visible is None or visible.dtype == torch.bool)
        and _can_run(q)
        and q.size(3) % _lanes() == 0
    )


class AttentionScales(NamedTuple):
    """Factor of the scores; weights whose random byte is below `drop_levels` are dropped, the others scaled."""

    scale: float
    drop_levels: int = 0
    keep_scale: float = 1.0


def attend(
    q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None, random: Tensor | None, scales: AttentionScales
) -> tuple[Tensor, Tensor]:
    """softmax(scale · Q K^T) V with gradients: Vaswani et al. 2017, eq. 1.

    Args:
        q: [B, H, T, K], where `can_attend` is true.
        k: [B, H, S, K].
        v: [B, H, S, K].
        visible: bool [B, 1, 1 or T, S], or None.
        random: uint8 [B, H, T, S] of the dropout of the weights, or None.
        scales: of scores and weights.

    Returns:
        Weighted values [B, H, T, K], zeros where no key is visible; and the weights [B, H, T, S] before dropout.
    """
    y, weights = _Attention.apply(q, k, v, visible, random, scales)  # type: ignore[no-untyped-call]
    return y, weights


def _heads(x: Tensor) -> ctypes.Structure:
    return HeadsStructure(x.data_ptr(), *x.stride()[:3])


def _empty_heads(like: Tensor) -> Tensor:
    """Uninitialised numbers [B, H, T, K] in the order B, T, H, K, in which the heads of a token are adjacent."""
    sentences, heads, tokens, width = like.shape
    return torch.empty(sentences, tokens, heads, width, dtype=like.dtype).transpose(1, 2)


class _Attention(torch.autograd.Function):
    """Attention and its weights, with the gradients of both."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        visible: Tensor | None,
        random: Tensor | None,
        scales: AttentionScales,
    ) -> tuple[Tensor, Tensor]:
        q, k, v = (x if x.stride(3) == 1 else x.contiguous() for x in (q, k, v))
        ctx.scales = scales
        ctx.set_materialize_grads(False)
        y, weights = _empty_heads(q), torch.empty(*q.shape[:3], k.size(2), dtype=q.dtype)
        _attend(q, k, v, weights, visible, random, ctx.scales, out=y)
        ctx.save_for_backward(q, k, v, weights, visible, random)
        return y, weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v, weights, visible, random = ctx.saved_tensors
        grad_y, grad_weights = grads
        if grad_y is None:
            grad_y = torch.zeros_like(q)
        grad_y = grad_y if grad_y.stride(3) == 1 else grad_y.contiguous()
        grad_weights = None if grad_weights is None else grad_weights.contiguous()
        results = _empty_heads(q), _empty_heads(k), _empty_heads(v)
        names = zip(("grad_q", "grad_k", "grad_v"), results, strict=True)
        _attend(
            q, k, v, weights, visible, random, ctx.scales, grad_out=grad_y, grad_weights=grad_weights, **dict(names)
        )
        return *results, None, None, None


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    weights: Tensor,
    visible: Tensor | None,
    random: Tensor | None,
    scales: AttentionScales,
    *,
    grad_weights: Tensor | None = None,
    **others: Tensor,
) -> None:
    """Run the kernel: forward into `out` and `weights`, or backward from `grad_out` and the weights."""
    failed = torch.zeros(1, dtype=torch.int32)
    if visible is not None:
        visible = visible.expand(q.size(0), 1, q.size(2), k.size(2))
        visible = visible if visible.stride(3) == 1 else visible.contiguous()
    task = TrainedAttention(
        q=_heads(q),
        k=_heads(k),
        v=_heads(v),
        weights=weights.data_ptr(),
        grad_weights=_pointer(grad_weights),
        visible=_pointer(visible),
        visible_sentence=0 if visible is None else visible.stride(0),
        visible_query=0 if visible is None else visible.stride(2),
        random=_pointer(random),
        failed=failed.data_ptr(),
        sentences=q.size(0),
        heads=q.size(1),
        queries=q.size(2),
        keys=k.size(2),
        width=q.size(3),
        is_bfloat16=q.dtype == torch.bfloat16,
        **scales._asdict(),
        **{name: _heads(x) for name, x in others.items()},
    )
    _call("mtkit_attend", task)


def can_drop(x: Tensor, base: Tensor | None = None) -> bool:
    """Return whether `drop` and `drop_relu` compute with x, and a base of the same shape, in training on a CPU."""
    is_base_read = base is None or (base.shape == x.shape and base.dtype in DTYPES and base.device == x.device)
    return is_base_read and torch.is_grad_enabled() and _can_run(x)


def drop(x: Tensor, random: Tensor, drop_levels: int, scale: float, base: Tensor | None = None) -> Tensor:
    """base + dropout(x), where numbers whose random byte is below `drop_levels` are dropped and the others scaled."""
    y: Tensor = _Drop.apply(x, base, random, drop_levels, scale)  # type: ignore[no-untyped-call]
    return y


def drop_relu(x: Tensor, random: Tensor | None, drop_levels: int, scale: float) -> Tensor:
    """dropout(relu(x)); see `drop`."""
    y: Tensor = _DropRelu.apply(x, random, drop_levels, scale)  # type: ignore[no-untyped-call]
    return y


def _drop(
    x: Tensor, dtype: torch.dtype, factor: float, *, is_relu: bool = False, drop_levels: int = 0, **others: Any
) -> Tensor:
    """Run the kernel on x and the tensors `base`, `gate` and `random`, or None."""
    x, y = x.contiguous(), torch.empty(x.shape, dtype=dtype)
    tensors = {name: None if each is None else each.contiguous() for name, each in others.items()}
    base = tensors.get("base")
    task = Dropped(
        x=x.data_ptr(),
        y=y.data_ptr(),
        count=x.numel(),
        x_is_bfloat16=x.dtype == torch.bfloat16,
        base_is_bfloat16=base is not None and base.dtype == torch.bfloat16,
        y_is_bfloat16=dtype == torch.bfloat16,
        drop_levels=drop_levels,
        is_relu=is_relu,
        factor=factor,
        **{name: _pointer(each) for name, each in tensors.items()},
    )
    _call("mtkit_drop", task)
    return y


class _Drop(torch.autograd.Function):
    """base + dropout(x), in the wider type of both."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, base: Tensor | None, random: Tensor, drop_levels: int, scale: float) -> Tensor:
        ctx.save_for_backward(random)
        ctx.settings, ctx.dtypes = (drop_levels, scale), (x.dtype, None if base is None else base.dtype)
        dtype = x.dtype if base is None else torch.promote_types(x.dtype, base.dtype)
        return _drop(x, dtype, scale, base=base, random=random, drop_levels=drop_levels)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (random,) = grads, ctx.saved_tensors
        (drop_levels, scale), (dtype, base_dtype) = ctx.settings, ctx.dtypes
        grad_x = _drop(grad, dtype, scale, random=random, drop_levels=drop_levels) if ctx.needs_input_grad[0] else None
        return grad_x, grad.to(base_dtype) if ctx.needs_input_grad[1] else None, None, None, None


class _DropRelu(torch.autograd.Function):
    """dropout(relu(x)), whose gradient is not zero where the result is not: only that is kept for it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, random: Tensor | None, drop_levels: int, scale: float) -> Tensor:
        y = _drop(x, x.dtype, scale, random=random, drop_levels=drop_levels, is_relu=True)
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (y,) = grads, ctx.saved_tensors
        return _drop(grad, y.dtype, ctx.scale, gate=y), None, None, None


def can_score(query: Tensor, keys: Tensor, v: Tensor) -> bool:
    """Return whether `score_additively` computes these scores."""
    is_read = query.dtype == keys.dtype == v.dtype and all(each.is_contiguous() for each in (query, keys, v))
    return is_read and query.numel() > 0 and _can_run(keys) and keys.size(2) % _lanes() == 0


def score_additively(query: Tensor, keys: Tensor, v: Tensor, **others: Tensor) -> None:
    """v · tanh(query + key) of queries [B, W, A] and keys [B, S, A], or its gradients; see AdditiveScores in C."""
    tensors = {"query": query, "keys": keys, "v": v, **others}
    task = AdditiveScores(
        sentences=keys.size(0),
        queries=query.size(1),
        positions=keys.size(1),
        width=keys.size(2),
        is_bfloat16=keys.dtype == torch.bfloat16,
        **{name: each.data_ptr() for name, each in tensors.items()},
    )
    _call("mtkit_score_additively", task)
