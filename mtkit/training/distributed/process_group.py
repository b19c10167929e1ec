"""What one process of a training needs of the others. Alone, every function gives back what it was given.

Processes are started by torchrun, which tells each its place in the environment. Gradients are added up after the
backward pass, by the processes themselves and in one exchange for each type of number, so that the one forward door of
the model stays the only one. Losses are divided by the tokens of all processes beforehand: the sum is what is wanted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from mtkit.training.distributed.fsdp import is_sharded
from mtkit.training.distributed.heartbeat import Heartbeat

PATIENCE = timedelta(days=7)  # of an exchange: one process may validate or save for long; the heartbeat finds the dead


@dataclass(frozen=True)
class Ranks:
    """The processes of a training; alone, this one is rank 0 of 1. Every process must call the same, in one order."""

    rank: int = 0
    world_size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes checkpoints and the log."""
        return self.rank == 0

    def sum(self, number: int) -> int:
        """The sum of every rank's number, on all of them."""
        if self.world_size == 1:
            return number
        return round(sum(row[0] for row in self.gather([number])))

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Every rank's numbers, equally many, in the order of ranks, on all of them."""
        if self.world_size == 1:
            return [list(numbers)]
        own = torch.tensor(numbers, dtype=torch.float64, device=_device())
        rows = [torch.empty_like(own) for _ in range(self.world_size)]
        dist.all_gather(rows, own)
        return [row.tolist() for row in rows]

    def from_first(self, numbers: Sequence[float]) -> list[float]:
        """The numbers of rank 0, equally many, on all of them."""
        return self.gather(numbers)[0]

    def texts(self, text: str) -> list[str]:
        """Every rank's text, in the order of ranks, on all of them."""
        if self.world_size == 1:
            return [text]
        content = text.encode()
        lengths = [int(row[0]) for row in self.gather([len(content)])]
        padded = content.ljust(max(1, *lengths), b" ")
        own = torch.tensor(list(padded), dtype=torch.uint8, device=_device())
        rows = [torch.empty_like(own) for _ in range(self.world_size)]
        dist.all_gather(rows, own)
        return [bytes(row[:length].tolist()).decode() for row, length in zip(rows, lengths, strict=True)]

    def wait(self) -> None:
        """Return when every rank has come here."""
        self.gather([0.0])

    @torch.no_grad()
    def add_gradients(self, model: nn.Module) -> None:
        """Replace every gradient by the sum over ranks; one that a rank has not computed counts as zero.

        One that no rank has computed stays missing, so that the optimiser leaves that weight alone as it does in one
        process. Those of sharded weights are such sums already.
        """
        if self.world_size == 1:
            return
        by_kind: dict[torch.dtype, list[nn.Parameter]] = {}
        for parameter in model.parameters():
            if parameter.requires_grad and not is_sharded(parameter):
                by_kind.setdefault(parameter.dtype, []).append(parameter)
        for parameters in by_kind.values():
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
            there = parameters[0].new_tensor([p.grad is not None for p in parameters])
            flat = torch.cat([*(gradient.flatten() for gradient in gradients), there])
            dist.all_reduce(flat)
            sizes = [*(gradient.numel() for gradient in gradients), len(parameters)]
            *parts, counts = flat.split(sizes)  # type: ignore[no-untyped-call]
            for parameter, gradient, part, count in zip(parameters, gradients, parts, counts.tolist(), strict=True):
                parameter.grad = gradient.copy_(part.view_as(gradient)) if count else None


ALONE = Ranks()


def _device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


@contextmanager
def joined() -> Iterator[Ranks]:
    """The processes that torchrun started, joined for as long as the block lasts; this one alone if there are none.

    A process that dies, stops or leaves the block by an error ends all the others, see Heartbeat.
    """
    stated = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()
    if not stated or os.environ["WORLD_SIZE"] == "1":
        yield ALONE
        return
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    has_gpu = torch.cuda.is_available()
    if has_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if has_gpu else "gloo", timeout=PATIENCE)
    beat = Heartbeat(rank, world_size)
    try:
        yield Ranks(rank, world_size)
    except BaseException as error:
        if isinstance(error, RuntimeError) and any(word in str(error).lower() for word in ("gloo", "nccl")):
            beat.wait_for_a_loss()  # an exchange broke off, as it does when the process at its other end is gone
        beat.close(f"{type(error).__name__}: {error}")
        raise
    beat.close(None)
    dist.destroy_process_group()
