"""How large a micro-batch may be here: what `training.batch_tokens: auto` comes to."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mtkit.corpus.order.batch import Batch
from mtkit.errors import TrainingError
from mtkit.hardware import free_memory
from mtkit.training.learner import Learner

SHARE = {"cpu": 0.5, "cuda": 0.9}  # of the free memory; others use a CPU's too


MOST = {"cpu": 8192, "cuda": 65536}  # places; beyond that nothing becomes faster, and updates become few


FEW = 1024  # places of the smaller of two probes; beyond the rows that the loss computes at a time


STATE = 12  # bytes that optimiser and moving average keep of each weight, at most


ROUND = 64  # places; the result is a multiple of it


MakeBatch = Callable[[int, int], Batch]  # (sentences, tokens of each with its end) -> a micro-batch without padding


class LiveTensors(TorchDispatchMode):
    """Counts the bytes of the tensors that are made in its block and not yet forgotten; `peak` is their most."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak: int = 0
        self._now = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one operation and look at what it gives."""
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._see(tensor.untyped_storage())
        return result

    def _see(self, storage: torch.UntypedStorage) -> None:
        if storage._cdata in self._sizes:
            return
        self._sizes[storage._cdata] = storage.nbytes()
        self._now += storage.nbytes()
        self.peak = max(self.peak, self._now)
        weakref.finalize(storage, self._forget, storage._cdata)

    def _forget(self, key: int) -> None:
        self._now -= self._sizes.pop(key)


def largest_batch(learner: Learner, longest: int, make: MakeBatch, *, processes: int = 1) -> int:
    """The largest `batch_tokens` whose micro-batches fit into this machine's memory.

    Loss and gradient of two small made-up micro-batches are computed; from there memory grows, nearly, in a straight
    line. On a GPU a micro-batch of the size found is then tried.

    Args:
        learner: of the recipe; it is used up.
        longest: tokens of the longest sentence, the end included; the longest need most memory for their attention.
        make: makes batches up.
        processes: that share the memory.

    Raises:
        TrainingError: not even the longest sentence fits.
    """
    kind = learner.device.type
    limit = SHARE[kind] * free_memory(learner.device) / processes
    few = max(1, FEW // longest)
    low, high = peak(learner, make(few, longest)), peak(learner, make(2 * few, longest))
    each = max(high - low, 1) / few  # bytes a sentence
    fixed = low - few * each + STATE * sum(p.numel() for p in learner.model.parameters())
    sentences = min((limit - fixed) / each, MOST[kind] / longest)
    places = int(sentences * longest) // ROUND * ROUND
    if kind == "cuda":
        places = _tried(learner, places, longest, make)
    if places < longest:
        needed = (fixed + each) / 1e9
        raise TrainingError(
            f"training.batch_tokens: auto: a sentence of {longest} tokens alone needs {needed:.1f} GB of the "
            f"{limit / 1e9:.1f} GB that training may use here; lower corpus.cleaning.max_length, choose a smaller "
            "model, or set training.activation_checkpointing: true"
        )
    return places


def peak(learner: Learner, batch: Batch) -> int:
    """The most bytes at a time of forward, loss and backward."""
    live = LiveTensors()
    with live:
        learn_once(learner, batch)
    return live.peak


def _tried(learner: Learner, places: int, length: int, make: MakeBatch) -> int:
    while places >= length:
        try:
            learn_once(learner, make(places // length, length))
            return places
        except torch.OutOfMemoryError:
            places = places * 4 // 5 // ROUND * ROUND
        torch.cuda.empty_cache()
    return places


def learn_once(learner: Learner, batch: Batch) -> None:
    """Loss and gradient of a micro-batch, waited for; the weights stay as they are.

    Raises:
        RuntimeError: as torch says that memory does not suffice.
    """
    learner.model.train()
    learner.begin(1)
    for losses in learner.losses([batch], 1):
        learner.backward(losses.sum / losses.tokens)
        losses.sum.item()  # waits for a GPU
