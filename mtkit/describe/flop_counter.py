"""FLOP counting per module for models on the meta device, whose tensors have shapes but no values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from mtkit.models.skip_init import META_DEVICE

aten = torch.ops.aten


def _matmul_flops(left: Tensor, right: Tensor) -> int:
    """FLOPs of [..., M, K] @ [..., K, N]: K multiplications and K additions for each of the M·N results."""
    return 2 * prod(left.shape) * right.shape[-1]


# matrix products, and the index of their first factor among the arguments; the second factor follows it
MATMULS = {aten.mm: 0, aten.bmm: 0, aten.addmm: 1, aten.baddbmm: 1}


class ModulePath:
    """Path of the module whose forward is running, named as in `named_modules`."""

    def __init__(self) -> None:
        self._stack = [""]

    @property
    def current(self) -> str:
        """Path of the innermost running module; empty for the model itself."""
        return self._stack[-1]

    @contextmanager
    def track(self, model: nn.Module) -> Iterator[None]:
        """Context manager that follows the calls of the model's modules through forward hooks."""
        handles = []
        for path, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(self._make_enter_hook(path)))
            handles.append(module.register_forward_hook(self._leave))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _make_enter_hook(self, path: str) -> Callable[[nn.Module, Any], None]:
        return lambda module, args: self._stack.append(path)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        self._stack.pop()


class FlopCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the FLOPs of matrix products by module; all other operations count as 0.

    Ids, positions and padding masks are real tensors on the CPU, so that a model may branch on their values. An
    operation with at least one meta tensor gives a meta tensor. Counts of unknown values (`bincount`), such as the
    number of tokens for each expert, are assumed to be uniform.

    Attributes:
        flops: FLOPs by the path of the module that computed them.
    """

    def __init__(self, module_path: ModulePath) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.module_path = module_path
        self.flops: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run one torch operation, on the meta device if an argument is there; called by torch."""
        leaves, tree = tree_flatten((args, kwargs or {}))
        if any(isinstance(leaf, Tensor) and leaf.device == META_DEVICE for leaf in leaves):
            args, kwargs = tree_unflatten([_to_meta(leaf) for leaf in leaves], tree)
        packet = func.overloadpacket
        if packet is aten.arange:  # positions have values
            return func(*args, **{**(kwargs or {}), "device": "cpu"})
        if packet is aten.bincount and args[0].device == META_DEVICE:
            return _uniform_counts(args[0].numel(), *args[1:], **kwargs or {})
        first = MATMULS.get(packet)
        if first is not None:
            self.flops[self.module_path.current] += _matmul_flops(args[first], args[first + 1])
        return func(*args, **kwargs or {})


def _to_meta(leaf: Any) -> Any:
    return leaf.to(META_DEVICE) if isinstance(leaf, Tensor) and leaf.device != META_DEVICE else leaf


def _uniform_counts(total: int, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """`bincount` of `total` uniformly distributed values: [minlength] integers with that sum."""
    count, remainder = divmod(total, minlength)
    return torch.tensor([count + (bin_index < remainder) for bin_index in range(minlength)])
