"""Fully sharded data parallelism (FSDP), and functions on tensors that may be sharded.

A tensor that is not sharded is its own local shard and its own full tensor, so that callers need not distinguish.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, nn

from mtkit.models.interface import TranslationModel
from mtkit.models.transformer.layers import Stack

if TYPE_CHECKING:  # its import takes most of a second, which every command would spend
    from torch.distributed.tensor import DTensor


def shard_model(model: TranslationModel, world_size: int, *, has_variable_passes: bool) -> None:
    """Shard every weight and its gradient along the first dimension, one shard per process.

    Zhao et al. 2023, https://arxiv.org/abs/2304.11277, by torch's `fully_shard` (FSDP2). The feed-forward sublayers,
    which are the largest, are gathered for their own forward and backward pass and freed after each. All other weights
    are gathered for a whole micro-batch. Gradients are summed over the processes.

    Args:
        model: identical on all processes and not sharded yet; changed in place. Build its optimiser afterwards.
        world_size: number of processes.
        has_variable_passes: whether the number of forward passes of a micro-batch depends on its data. Gathering is a
            collective operation, so processes with different numbers of passes would deadlock; all weights are then
            gathered together, once per micro-batch.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    mesh = init_device_mesh(next(model.parameters()).device.type, (world_size,))
    for unit in [*([] if has_variable_passes else _fsdp_units(model)), model]:
        fully_shard(unit, mesh=mesh)
        if isinstance(unit, FSDPModule):  # always; fully_shard changes the class, which mypy cannot see
            unit.set_gradient_divide_factor(1.0)  # losses are divided by the tokens of all processes already
            unit.set_force_sum_reduction_for_comms(True)


def _fsdp_units(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the feed-forward sublayers, whose weights no other module uses."""
    for stack in model.modules():
        if isinstance(stack, Stack):
            yield from (layer.feed_forward for layer in stack)  # type: ignore[misc]


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Return whether this process stores only a shard of the tensor."""
    return hasattr(tensor, "full_tensor")


def local_shard(tensor: Tensor) -> Tensor:
    """Return this process's shard, sharing memory."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the full tensor; for a sharded one this is a collective operation."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def shard_like(full: Tensor, like: Tensor) -> Tensor:
    """Shard a full tensor as another of the same shape, on that one's device and without communication."""
    full = full.to(like.device)
    if not is_sharded(like):
        return full
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(full, like.device_mesh, like.placements, src_data_rank=None)


@torch.no_grad()
def copy_into_shard(tensor: Tensor, full: Tensor) -> None:
    """Copy a full tensor into one that may be sharded."""
    local_shard(tensor).copy_(local_shard(shard_like(full, tensor)))


def total_norm(tensors: Sequence[Tensor]) -> Tensor:
    """Return the Euclidean norm of all tensors together, over the shards of all processes; a scalar tensor."""
    norm: Tensor = nn.utils.get_total_norm([local_shard(tensor) for tensor in tensors])
    sharded = next(filter(is_sharded, tensors), None)
    if sharded is None:
        return norm
    square = norm.square()
    torch.distributed.all_reduce(square, group=sharded.device_mesh.get_group())
    return square.sqrt()


class UnshardedReplica:
    """Copy of a sharded model, with full weights inside a `with` block only: the model that validation uses.

    Search copies models and runs a number of decoder steps that depends on the sentences. A sharded model supports
    neither, since each of its passes is a collective operation.
    """

    def __init__(self, model: TranslationModel) -> None:
        """Copy the structure of a model that is not sharded yet."""
        self._model = copy.deepcopy(model).eval()
        self._free()

    @contextmanager
    def loaded_from(self, model: TranslationModel) -> Iterator[TranslationModel]:
        """Provide the replica with the model's current weights and buffers; a collective operation."""
        for own, weight in zip(self._model.parameters(), model.parameters(), strict=True):
            own.data = full_tensor(weight.detach())
        for own_buffer, buffer in zip(self._model.buffers(), model.buffers(), strict=True):  # never sharded
            own_buffer.copy_(buffer)
        try:
            yield self._model
        finally:
            self._free()

    def _free(self) -> None:
        for parameter in self._model.parameters():
            parameter.data = parameter.data.new_empty(0)
