"""Capabilities of decoder inputs."""

from __future__ import annotations

from typing import ClassVar


class DecoderInputConfigBase:
    """Capabilities of a decoder input's configuration; a kind overrides those that differ."""

    reads_truth: ClassVar[bool] = False  # the decoder reads the true tokens, and only these
    passes_depend_on_data: ClassVar[bool] = False  # the number of forward passes of a micro-batch depends on its data

    def ratio_at(self, update: int) -> float | None:
        """Teacher forcing ratio at an update (1 is the first), for the log; None for a kind without a schedule."""
        return None
