"""The settings of a benchmark, and what is measured for each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from mtkit.translate.compute_type import ComputeType

EngineName = Literal["mtkit", "ctranslate2"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One cell of the grid.

    Attributes:
        threads: of all workers together; 0: as many as there are processors.
        batch_tokens: (sentences + hypotheses) × longest source of a batch; None: the default.
    """

    engine: EngineName = "mtkit"
    compute_type: ComputeType = "auto"
    beam_size: int = 5
    batch_tokens: int | None = None
    workers: int = 1
    shortlist: bool = False
    threads: int = 0

    @property
    def threads_each(self) -> int:
        """Threads of one worker."""
        return max(1, (self.threads or len(os.sched_getaffinity(0))) // self.workers)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Which settings are measured: every combination."""

    compute_types: Sequence[ComputeType] = ("auto",)
    beam_sizes: Sequence[int] = (1, 5)
    batch_tokens: Sequence[int | None] = (None,)
    workers: Sequence[int] = (1,)
    shortlist: Sequence[bool] = (False,)
    peer: EngineName | None = None
    threads: int = 0

    def settings(self) -> Iterator[Setting]:
        """The other engine's figures come right after ours, which has a shortlist of its own or none."""
        cells = itertools.product(
            self.beam_sizes, self.compute_types, self.batch_tokens, self.workers, sorted(self.shortlist)
        )
        for beam_size, compute_type, batch_tokens, workers, shortlist in cells:
            setting = Setting(
                compute_type=compute_type,
                beam_size=beam_size,
                batch_tokens=batch_tokens,
                workers=workers,
                shortlist=shortlist,
                threads=self.threads,
            )
            yield setting
            if self.peer is not None and not shortlist:
                yield replace(setting, engine=self.peer)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was measured for a setting.

    Attributes:
        computed_with: the numbers that `auto` came to.
        seconds: for the whole text, the best of the repetitions, loading and warming up apart.
        tokens_per_second: pieces of the translations and ends of sentence.
        latency_p50, latency_p95: milliseconds for one line alone.
        memory: MiB at its peak, of all processes together (each worker counted as the largest of them).
        bleu: None without a reference.
        refused: why the engine cannot work in this setting; the figures are then 0.
    """

    setting: Setting
    computed_with: str = ""
    seconds: float = 0.0
    sentences_per_second: float = 0.0
    tokens_per_second: float = 0.0
    latency_p50: float = 0.0
    latency_p95: float = 0.0
    memory: float = 0.0
    bleu: float | None = None
    refused: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, those of the setting among them."""
        values = asdict(self)
        return {**values.pop("setting"), **values}
