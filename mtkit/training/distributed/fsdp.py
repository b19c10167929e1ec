"""A model of which every process keeps a part (FSDP), and what its tensors need where they are read or written whole.

A tensor that is not sharded is its own part and is whole: the functions here serve both.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeGuard

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.stack import Stack


def shard(model: TranslationModel, world_size: int, *, varies: bool) -> None:
    """Cut every weight along its first dimension; each process of the job keeps one part, and of its gradient too.

    Zhao et al. 2023, https://arxiv.org/abs/2304.11277, in the second form that torch has of it. The feed-forward parts
    of the layers, the largest there are, are gathered for their own forward and backward pass and forgotten after
    each; all other weights are gathered for a micro-batch. Gradients come out summed over the processes.

    Args:
        model: whole and alike on all processes; changed in place. Its optimiser is to be made after this.
        world_size: how many processes there are.
        varies: whether a micro-batch decides how often it runs the layers. Processes would then wait for each other
            for ever, so that all weights are gathered together.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    mesh = init_device_mesh(next(model.parameters()).device.type, (world_size,))
    for unit in [*([] if varies else _units(model)), model]:
        fully_shard(unit, mesh=mesh)
        if isinstance(unit, FSDPModule):  # the class has become one, which mypy can't know
            unit.set_gradient_divide_factor(1.0)
            unit.set_force_sum_reduction_for_comms(True)


def _units(model: nn.Module) -> Iterator[nn.Module]:
    """The feed-forward parts of layers, which nothing else knows of."""
    for stack in model.modules():
        if isinstance(stack, Stack):
            yield from (layer.feed_forward for layer in stack)  # type: ignore[misc]


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether other processes keep other parts of this tensor."""
    return hasattr(tensor, "full_tensor")


def own_part(tensor: Tensor) -> Tensor:
    """The part that this process keeps, sharing its memory."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """The whole tensor; if it is sharded, every process must ask for it."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def cut_like(given: Tensor, like: Tensor) -> Tensor:
    """A whole tensor cut as another of the same shape is, without asking any process; on that one's device."""
    given = given.to(like.device)
    if not is_sharded(like):
        return given
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(given, like.device_mesh, like.placements, src_data_rank=None)


@torch.no_grad()
def fill(tensor: Tensor, given: Tensor) -> None:
    """Copy a whole tensor into one that may be sharded."""
    own_part(tensor).copy_(own_part(cut_like(given, tensor)))


def total_norm(tensors: Sequence[Tensor]) -> Tensor:
    """The Euclidean norm of all of them together, of every process's parts; the same scalar on all."""
    norm: Tensor = nn.utils.get_total_norm([own_part(tensor) for tensor in tensors])
    sharded = next(filter(is_sharded, tensors), None)
    if sharded is None:
        return norm
    square = norm.square()
    torch.distributed.all_reduce(square, group=sharded.device_mesh.get_group())
    return square.sqrt()


class Shell:
    """A model of the same make whose weights are there only within a block: what a sharded model is judged with.

    Search copies models and calls them as often as their sentences ask, which a sharded one does not survive.
    """

    def __init__(self, model: TranslationModel) -> None:
        """Take the make of a model that is still whole."""
        self._model = copy.deepcopy(model).eval()
        self._empty()

    @contextmanager
    def filled(self, model: TranslationModel) -> Iterator[TranslationModel]:
        """A block with the model's present weights, whole, and what else it was given; every process must enter it."""
        for own, weight in zip(self._model.parameters(), model.parameters(), strict=True):
            own.data = whole(weight.detach())
        for kept, buffer in zip(self._model.buffers(), model.buffers(), strict=True):  # sharding leaves them whole
            kept.copy_(buffer)
        try:
            yield self._model
        finally:
            self._empty()

    def _empty(self) -> None:
        for parameter in self._model.parameters():
            parameter.data = parameter.data.new_empty(0)
