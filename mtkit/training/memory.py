"""Memory of a training, measured; and the largest micro-batch that fits into it: `training.batch_tokens: auto`."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mtkit.corpus.order.batch import Batch
from mtkit.errors import ComputeError
from mtkit.hardware import free_memory
from mtkit.training.learner import Learner

MEMORY_FRACTION = {"cpu": 0.5, "cuda": 0.9}  # of the free memory; other programs use a CPU's too
MAX_TOKENS = {"cpu": 8192, "cuda": 65536}  # more makes nothing faster, and an epoch has few updates
SMALLER_PROBE_TOKENS = 1024  # of the smaller probe; more than a chunk of the loss (chunked_loss.CHUNK_SIZE)
STATE_BYTES = 12  # of optimiser and EMA per weight, at most
MULTIPLE_OF = 64  # tokens; the result is rounded down to a multiple
MakeBatch = Callable[[int, int], Batch]  # (sentences, length with eos) -> a micro-batch without padding


class TensorMemoryTracker(TorchDispatchMode):
    """Measures the bytes of live tensors that were created inside the `with` block.

    Attributes:
        peak_bytes: maximum so far.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak_bytes: int = 0
        self._live_bytes = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one operation and track its results."""
        result = func(*args, **(kwargs or {}))
        for storage in (tensor.untyped_storage() for tensor in tree_leaves(result) if isinstance(tensor, Tensor)):
            if storage._cdata not in self._sizes:
                self._sizes[storage._cdata] = storage.nbytes()
                self._live_bytes += storage.nbytes()
                self.peak_bytes = max(self.peak_bytes, self._live_bytes)
                weakref.finalize(storage, self._untrack, storage._cdata)
        return result

    def _untrack(self, key: int) -> None:
        self._live_bytes -= self._sizes.pop(key)


def find_max_batch_tokens(learner: Learner, max_length: int, make_batch: MakeBatch, *, num_processes: int = 1) -> int:
    """Find the largest `batch_tokens` whose micro-batches fit into this machine's memory.

    The peak memory of two small dummy micro-batches is extrapolated linearly in the number of sentences. On a GPU, a
    micro-batch of the resulting size is then run.

    Args:
        learner: of the recipe; its gradients are modified.
        max_length: tokens of the longest sentence with eos. Attention needs the most memory for the longest sentences.
        num_processes: that share the memory.

    Raises:
        ComputeError: a single sentence of `max_length` does not fit.
    """
    kind = learner.device.type
    limit = MEMORY_FRACTION[kind] * free_memory(learner.device) / num_processes
    count = max(1, SMALLER_PROBE_TOKENS // max_length)
    low = measure_peak_bytes(learner, make_batch(count, max_length))
    high = measure_peak_bytes(learner, make_batch(2 * count, max_length))
    bytes_per_sentence = max(high - low, 1) / count
    fixed = low - count * bytes_per_sentence + STATE_BYTES * sum(p.numel() for p in learner.model.parameters())
    sentences = min((limit - fixed) / bytes_per_sentence, MAX_TOKENS[kind] / max_length)
    batch_tokens = int(sentences * max_length) // MULTIPLE_OF * MULTIPLE_OF
    while kind == "cuda" and batch_tokens >= max_length:  # reduced by fifths until a micro-batch of that size runs
        try:
            forward_backward(learner, make_batch(batch_tokens // max_length, max_length))
            break
        except torch.OutOfMemoryError:
            batch_tokens = batch_tokens * 4 // 5 // MULTIPLE_OF * MULTIPLE_OF
        torch.cuda.empty_cache()
    if batch_tokens < max_length:
        needed = (fixed + bytes_per_sentence) / 1e9
        raise ComputeError(
            f"training.batch_tokens: auto: a single sentence of {max_length} tokens needs {needed:.1f} GB of the "
            f"{limit / 1e9:.1f} GB that training may use here; lower corpus.cleaning.max_length, choose a smaller "
            "model, or set training.activation_checkpointing: true"
        )
    return batch_tokens


def measure_peak_bytes(learner: Learner, batch: Batch) -> int:
    """Measure the peak memory of forward pass, loss and backward pass in bytes."""
    tracker = TensorMemoryTracker()
    with tracker:
        forward_backward(learner, batch)
    return tracker.peak_bytes


def forward_backward(learner: Learner, batch: Batch) -> None:
    """Compute loss and gradient of a micro-batch and wait for the device; the weights do not change.

    Raises:
        RuntimeError: torch's error if memory runs out.
    """
    learner.model.train()
    learner.start_update(1)
    for losses in learner.losses([batch], 1):
        learner.backward(losses.sum / losses.tokens)
        losses.sum.item()  # waits for a GPU


class SavedTensorBytes:
    """Pack hook for `torch.autograd.graph.saved_tensors_hooks` that counts the saved bytes.

    Each storage counts once; the parameters of the model do not count.

    Attributes:
        by_group: saved bytes by what `group` returned when they were saved.
    """

    def __init__(self, model: nn.Module, group: Callable[[], str] = str) -> None:
        """Count nothing yet; `group` names what is computing, such as a module's path (default: one empty name)."""
        self.by_group: Counter[str] = Counter()
        self._group = group
        self._seen = {_storage_id(parameter) for parameter in model.parameters()}

    @property
    def total(self) -> int:
        """Saved bytes of all groups."""
        return self.by_group.total()

    def __call__(self, tensor: Tensor) -> Tensor:
        """Count a tensor that autograd saves, and save it unchanged."""
        storage = _storage_id(tensor)
        if storage not in self._seen:
            self._seen.add(storage)
            self.by_group[self._group()] += tensor.untyped_storage().nbytes()
        return tensor


def _storage_id(tensor: Tensor) -> int:
    """Address of the tensor's memory; on the meta device, which has none, that of the storage object."""
    storage = tensor.untyped_storage()
    return storage._cdata if tensor.is_meta else storage.data_ptr()
