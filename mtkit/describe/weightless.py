"""Computing without weights: a model's tensors have shapes and no values, and what is computed is counted."""

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

from mtkit.build.skip_init import META

aten = torch.ops.aten


def _flops_of_product(left: Tensor, right: Tensor) -> int:
    """Of [..., m, k] times [..., k, n]: each of the results takes k multiplications and k additions."""
    return 2 * prod(left.shape) * right.shape[-1]


# matrix products, and the place of their first factor among the arguments; the second follows it
PRODUCTS = {aten.mm: 0, aten.bmm: 0, aten.addmm: 1, aten.baddbmm: 1}


class Where:
    """The part of a model that is computing at the moment, by its path; parts are named as in `named_modules`."""

    def __init__(self) -> None:
        self.paths = [""]

    @property
    def path(self) -> str:
        """Of the innermost module that was called; empty for the model itself."""
        return self.paths[-1]

    @contextmanager
    def following(self, model: nn.Module) -> Iterator[None]:
        """A block in which the path follows the calls of the model's modules."""
        handles = []
        for path, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(self._entering(path)))
            handles.append(module.register_forward_hook(self._left))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _entering(self, path: str) -> Callable[[nn.Module, Any], None]:
        return lambda module, args: self.paths.append(path)

    def _left(self, module: nn.Module, args: Any, given: Any) -> None:
        self.paths.pop()


class Weightless(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the floating-point operations of matrix products, by part; everything else is not counted.

    What is known (ids, positions, what is padding) stays known, on the CPU, so that a model may look at it; where it
    meets what is not known, on the meta device, the result is not known either. A count of unknown numbers is taken to
    be even, as of tokens over experts.
    """

    def __init__(self, where: Where) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.where = where
        self.flops: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Compute one operation of torch's."""
        leaves, tree = tree_flatten((args, kwargs or {}))
        if any(isinstance(leaf, Tensor) and leaf.device == META for leaf in leaves):
            args, kwargs = tree_unflatten([_unknown(leaf) for leaf in leaves], tree)
        packet = func.overloadpacket
        if packet is aten.arange:
            return func(*args, **{**(kwargs or {}), "device": "cpu"})
        if packet is aten.bincount and args[0].device == META:
            return _even(args[0].numel(), *args[1:], **kwargs or {})
        first = PRODUCTS.get(packet)
        if first is not None:
            self.flops[self.where.path] += _flops_of_product(args[first], args[first + 1])
        return func(*args, **kwargs or {})


def _unknown(leaf: Any) -> Any:
    return leaf.to(META) if isinstance(leaf, Tensor) and leaf.device != META else leaf


def _even(total: int, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """So many of each of `minlength` kinds that there are `total` of all."""
    each, more = divmod(total, minlength)
    return torch.tensor([each + (kind < more) for kind in range(minlength)])
