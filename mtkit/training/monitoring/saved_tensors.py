"""Bytes of activations that autograd saves for the backward pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from torch import Tensor, nn


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
