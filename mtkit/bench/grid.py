"""A grid of settings of a benchmark, and the table of its results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from mtkit.display import Table
from mtkit.hardware import available_cores
from mtkit.inference.support import ComputeType

EngineName = Literal["mtkit", "ctranslate2"]


@dataclass(frozen=True, kw_only=True)
class BenchSetting:
    """One combination of settings.

    Attributes:
        batch_tokens: (sentences + hypotheses) × longest source of a batch; None: the default.
        threads: CPU threads of all workers together; 0: one for each available CPU.
        rewrite: see TranslationOptions; without effect on another engine.
    """

    engine: EngineName = "mtkit"
    compute_type: ComputeType = "auto"
    beam_size: int = 5
    batch_tokens: int | None = None
    workers: int = 1
    threads: int = 0
    rewrite: bool = True

    @property
    def threads_per_worker(self) -> int:
        """CPU threads of one worker."""
        return max(1, (self.threads or available_cores()) // self.workers)


@dataclass(frozen=True, kw_only=True)
class BenchGrid:
    """Values of each setting; every combination is measured.

    Attributes:
        peer: another engine to measure with the same settings; None: mtkit only.
    """

    compute_types: Sequence[ComputeType] = ("auto",)
    beam_sizes: Sequence[int] = (1, 5)
    batch_tokens: Sequence[int | None] = (None,)
    workers: Sequence[int] = (1,)
    peer: EngineName | None = None
    threads: int = 0
    rewrite: bool = True

    def settings(self) -> Iterator[BenchSetting]:
        """All combinations; the peer follows mtkit."""
        combinations = itertools.product(self.beam_sizes, self.compute_types, self.batch_tokens, self.workers)
        for beam_size, compute_type, batch_tokens, workers in combinations:
            setting = BenchSetting(
                compute_type=compute_type,
                beam_size=beam_size,
                batch_tokens=batch_tokens,
                workers=workers,
                threads=self.threads,
                rewrite=self.rewrite,
            )
            yield setting
            if self.peer is not None:
                yield replace(setting, engine=self.peer)


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """Measurements of one setting.

    Attributes:
        actual_compute_type: compute type that `auto` was resolved to.
        seconds: for the whole text, the fastest repetition, without loading and warm-up.
        tokens_per_second: output tokens, ends of sentence included.
        latency_p50, latency_p95: milliseconds to translate a single line.
        memory: MiB of all processes together, after the last translation.
        bleu: None without a reference.
        error: reason why the engine does not support the setting; the measurements are then 0.
    """

    setting: BenchSetting
    actual_compute_type: str = ""
    seconds: float = 0.0
    sentences_per_second: float = 0.0
    tokens_per_second: float = 0.0
    latency_p50: float = 0.0
    latency_p95: float = 0.0
    memory: float = 0.0
    bleu: float | None = None
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Measurements and settings in one mapping."""
        values = asdict(self)
        return {**values.pop("setting"), **values}


_SETTING_COLUMNS = ("engine", "compute type", "beam", "batch", "workers")
_RESULT_COLUMNS = ("lines/s", "tokens/s", "p50 ms", "p95 ms", "MiB", "BLEU")


def bench_table(rows: Sequence[BenchResult]) -> Table:
    """Table with one row for each setting; a setting that the engine does not support has dashes."""
    all_cells = []
    for row in rows:
        setting = row.setting
        cells = (
            setting.engine,
            row.actual_compute_type or setting.compute_type,
            str(setting.beam_size),
            "default" if setting.batch_tokens is None else f"{setting.batch_tokens:,}",
            f"{setting.workers} × {setting.threads_per_worker}",
        )
        all_cells.append([*cells, *(_result_cells(row) if row.error is None else ["–"] * len(_RESULT_COLUMNS))])
    return Table([*_SETTING_COLUMNS, *_RESULT_COLUMNS], all_cells, text=_SETTING_COLUMNS)


def unsupported_settings(rows: Sequence[BenchResult]) -> list[str]:
    """Errors of the settings that an engine does not support, each once."""
    return list(dict.fromkeys(f"{row.setting.engine}: {row.error}" for row in rows if row.error is not None))


def _result_cells(row: BenchResult) -> list[str]:
    return [
        f"{row.sentences_per_second:,.1f}",
        f"{row.tokens_per_second:,.0f}",
        f"{row.latency_p50:,.1f}",
        f"{row.latency_p95:,.1f}",
        f"{row.memory:,.0f}",
        "" if row.bleu is None else f"{row.bleu:.2f}",
    ]
