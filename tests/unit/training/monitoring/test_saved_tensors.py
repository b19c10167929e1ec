"""Counting the bytes that autograd saves."""

from __future__ import annotations

import torch
from torch import nn

from mtkit.training.memory import SavedTensorBytes


def test_each_storage_counts_once_and_parameters_do_not_count() -> None:
    model = nn.Linear(4, 3, bias=False)
    x = torch.randn(2, 4)
    groups = iter(["first", "second"])
    saved = SavedTensorBytes(model, lambda: next(groups))
    with torch.autograd.graph.saved_tensors_hooks(saved, lambda tensor: tensor):
        y = model(x)  # saves x, [2, 4] float32, and the weight
        model(x)  # saves x again
        y.tanh()  # saves its result, [2, 3]
    assert saved.by_group == {"first": 2 * 4 * 4, "second": 2 * 3 * 4}
    assert saved.total == 32 + 24


def test_meta_tensors_have_storages_of_their_own() -> None:
    saved = SavedTensorBytes(nn.Linear(2, 2))
    first, second = torch.empty(3, device="meta"), torch.empty(5, device="meta")
    for tensor in (first, second, first):
        saved(tensor)
    assert saved.total == (3 + 5) * 4
