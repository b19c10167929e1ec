"""Capabilities of optimisers."""

from __future__ import annotations

from typing import ClassVar


class OptimiserConfigBase:
    """Capabilities of an optimiser's configuration; a kind sets `bytes_per_weight` and overrides what differs."""

    bytes_per_weight: ClassVar[int]  # bytes of optimiser state per weight, at most; vectors per matrix are not counted
    has_chosen_rate: ClassVar[bool] = False  # its learning rates are Adam's, which are chosen from the corpus
    needs_whole_matrices: ClassVar[bool] = False  # an update of a row depends on other rows, so FSDP cannot shard it
