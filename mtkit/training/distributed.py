"""Distributed training: collective operations, tensors that may be sharded, and fully sharded data parallelism (FSDP).

torchrun starts the processes and gives each its rank in the environment. Gradients are summed after the backward pass
by one all-reduce per dtype, not by hooks of DistributedDataParallel, so that `model(batch, objective)` stays the only
entry point of training. They are summed, not averaged: losses were divided by the tokens of all processes before.

In a single process each collective operation returns its argument, and a tensor that is not sharded is its own local
shard and its own full tensor, so that callers need not distinguish.
"""

from __future__ import annotations

import copy
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import PrefixStore, TCPStore

from mtkit.errors import ComputeError, Interrupted
from mtkit.hardware import has_gpu
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
        has_variable_passes: whether the number of forward passes of a micro-batch depends on its data. Gathering is a
            collective operation, so processes with different numbers of passes would deadlock; all weights are then
            gathered together, once per micro-batch.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    mesh = init_device_mesh(next(model.parameters()).device.type, (world_size,))
    stacks = [] if has_variable_passes else [module for module in model.modules() if isinstance(module, Stack)]
    # feed-forward sublayers, whose weights no other module uses
    units: list[nn.Module] = [layer.feed_forward for stack in stacks for layer in stack]  # type: ignore[misc]
    for unit in [*units, model]:
        fully_shard(unit, mesh=mesh)
        if isinstance(unit, FSDPModule):  # always; fully_shard changes the class, which mypy cannot see
            unit.set_gradient_divide_factor(1.0)  # losses are divided by the tokens of all processes already
            unit.set_force_sum_reduction_for_comms(True)


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
        for replica, weight in zip(self._model.parameters(), model.parameters(), strict=True):
            replica.data = full_tensor(weight.detach())
        for replica_buffer, buffer in zip(self._model.buffers(), model.buffers(), strict=True):  # never sharded
            replica_buffer.copy_(buffer)
        try:
            yield self._model
        finally:
            self._free()

    def _free(self) -> None:
        for parameter in self._model.parameters():
            parameter.data = parameter.data.new_empty(0)


INTERVAL = 2.0  # seconds between two heartbeats
TIMEOUT = 30.0  # seconds without a heartbeat after which a process counts as dead
DONE = "left"  # last heartbeat of a process that ended without an error


class Heartbeat:
    """Thread that writes this process's heartbeat to the job's store and checks those of the other processes.

    A thread of its own also runs while the process computes, validates, saves or compiles. When another process has
    sent no heartbeat for TIMEOUT seconds, or has reported an error, this process names it on stderr and exits with the
    exit code of a failed training: a collective operation that waits for it would never return.
    """

    def __init__(self, rank: int, world_size: int) -> None:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=TIMEOUT))
        self._store = PrefixStore("mtkit", store)
        self._rank = rank
        self._others = [other for other in range(world_size) if other != rank]
        self._ended = threading.Event()
        self._store.set(f"name/{rank}", f"rank {rank} ({socket.gethostname()}, process {os.getpid()})")
        self._store.set(f"beat/{rank}", "0")
        self.thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self.thread.start()

    def close(self, error: str | None) -> None:
        """Stop the thread and report to the others that this process ends, with its error if it failed."""
        self._ended.set()
        self.thread.join()
        try:
            self._store.set(f"beat/{self._rank}", DONE if error is None else f"failed: {error}"[:2000])
        except RuntimeError:
            return  # the process that hosted the store has ended

    def _run(self) -> None:
        seen = dict.fromkeys(self._others, ("", time.monotonic()))
        for number in range(1, sys.maxsize):
            if self._ended.wait(INTERVAL):
                return
            try:
                self._store.set(f"beat/{self._rank}", str(number))
                for other in self._others:
                    self._check(other, seen)
            except RuntimeError:  # the store is hosted by the first process or by torchrun
                _exit("the process that hosts the job's store", "is dead or stopped")

    def _check(self, other: int, seen: dict[int, tuple[str, float]]) -> None:
        beat = self._store.get(f"beat/{other}").decode()
        before, when = seen[other]
        if beat != before:
            seen[other] = (beat, time.monotonic())
        is_silent = beat == before and beat != DONE and time.monotonic() - when > TIMEOUT
        if is_silent or beat.startswith("failed: "):
            name = self._store.get(f"name/{other}").decode()
            _exit(name, beat if beat.startswith("failed: ") else "is dead or stopped")


def _exit(process: str, status: str) -> None:
    sys.stderr.write(
        f"mtkit: error: {process} {status}; this process ends too, run the same command again to resume from the last "
        "checkpoint\n"
    )
    sys.stderr.flush()
    os._exit(ComputeError.exit_code)


# of a collective operation; the first process may validate or save for long, and the heartbeat finds dead processes
COLLECTIVE_TIMEOUT = timedelta(days=7)


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of a training. All methods are collective: every process calls the same ones in the same order."""

    rank: int = 0
    world_size: int = 1

    @property
    def is_first(self) -> bool:
        """True if this process has rank 0, which writes checkpoints and the log."""
        return self.rank == 0

    def all_gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Return every rank's numbers in the order of ranks; all ranks have the same count."""
        if self.world_size == 1:
            return [list(numbers)]
        local = torch.tensor(numbers, dtype=torch.float64, device=_device())
        rows = [torch.empty_like(local) for _ in range(self.world_size)]
        dist.all_gather(rows, local)
        return [row.tolist() for row in rows]

    def broadcast(self, numbers: Sequence[float]) -> list[float]:
        """Return the numbers of rank 0; all ranks have the same count."""
        return self.all_gather(numbers)[0]

    def all_gather_text(self, text: str) -> list[str]:
        """Return every rank's text in the order of ranks."""
        if self.world_size == 1:
            return [text]
        content = text.encode()
        lengths = [int(row[0]) for row in self.all_gather([len(content)])]
        padded = content.ljust(max(1, *lengths), b" ")
        local = torch.tensor(list(padded), dtype=torch.uint8, device=_device())
        rows = [torch.empty_like(local) for _ in range(self.world_size)]
        dist.all_gather(rows, local)
        return [bytes(row[:length].tolist()).decode() for row, length in zip(rows, lengths, strict=True)]

    def barrier(self) -> None:
        """Wait until every rank has called this."""
        self.all_gather([0.0])

    @torch.no_grad()
    def all_reduce_gradients(self, model: nn.Module) -> None:
        """Replace every gradient by its sum over the ranks.

        A gradient that a rank did not compute counts as zero there. One that no rank computed stays None, so that the
        optimiser skips that weight as it does in a single process. FSDP has summed the gradients of sharded weights.
        """
        if self.world_size == 1:
            return
        by_dtype: dict[torch.dtype, list[nn.Parameter]] = {}
        for parameter in model.parameters():
            if parameter.requires_grad and not is_sharded(parameter):
                by_dtype.setdefault(parameter.dtype, []).append(parameter)
        for parameters in by_dtype.values():
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
            is_computed = parameters[0].new_tensor([p.grad is not None for p in parameters])  # its sum: ranks with one
            flat = torch.cat([*(gradient.flatten() for gradient in gradients), is_computed])
            dist.all_reduce(flat)
            sizes = [*(gradient.numel() for gradient in gradients), len(parameters)]
            *sums, counts = flat.split(sizes)  # type: ignore[no-untyped-call]
            for parameter, gradient, total, count in zip(parameters, gradients, sums, counts.tolist(), strict=True):
                parameter.grad = gradient.copy_(total.view_as(gradient)) if count else None


SINGLE_PROCESS = ProcessGroup()


def _device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


def num_processes() -> int:
    """Return the number of processes that torchrun started; 1 without it."""
    is_torchrun = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()
    return int(os.environ["WORLD_SIZE"]) if is_torchrun else 1


@contextmanager
def init_process_group() -> Iterator[ProcessGroup]:
    """Provide the group of the processes that torchrun started, or the single process if there are no others.

    When a process dies, stops or leaves the block by an exception, the other processes end, see Heartbeat.
    """
    if (world_size := num_processes()) == 1:
        yield SINGLE_PROCESS
        return
    rank = int(os.environ["RANK"])
    if has_gpu():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if has_gpu() else "gloo", timeout=COLLECTIVE_TIMEOUT)
    heartbeat = Heartbeat(rank, world_size)
    try:
        yield ProcessGroup(rank, world_size)
    except Interrupted:  # all processes stop at the same update; none has failed, and the others may still be saving
        heartbeat.close(None)
        raise
    except BaseException as error:
        if isinstance(error, RuntimeError) and any(word in str(error).lower() for word in ("gloo", "nccl")):
            # a connection breaks when the process at its other end dies; wait until the thread has found and named it
            heartbeat.thread.join(TIMEOUT + 3 * INTERVAL)
        heartbeat.close(f"{type(error).__name__}: {error}")
        raise
    heartbeat.close(None)
    dist.destroy_process_group()
