"""Grids of settings of a benchmark, and the tables of their results; the suite is the whole benchmark of one model.

Speeds of different runs of a shared machine do not compare; what the suite compares was measured together.
"""

from __future__ import annotations

import datetime
import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch

from mtkit.bench.machine import Machine
from mtkit.display import Table
from mtkit.hardware import available_cores, has_bf16
from mtkit.inference.support import ComputeType
from mtkit.training.config import PrecisionName

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
        figures = (
            f"{row.sentences_per_second:,.1f}",
            f"{row.tokens_per_second:,.0f}",
            f"{row.latency_p50:,.1f}",
            f"{row.latency_p95:,.1f}",
            f"{row.memory:,.0f}",
            "" if row.bleu is None else f"{row.bleu:.2f}",
        )
        all_cells.append([*cells, *(figures if row.error is None else ["–"] * len(figures))])
    return Table([*_SETTING_COLUMNS, *_RESULT_COLUMNS], all_cells, text=_SETTING_COLUMNS)


def unsupported_settings(rows: Sequence[BenchResult]) -> list[str]:
    """Errors of the settings that an engine does not support, each once."""
    return list(dict.fromkeys(f"{row.setting.engine}: {row.error}" for row in rows if row.error is not None))


SUITE_COLUMNS = (
    "search",
    "type",
    "workers",
    "engine",
    "lines/s",
    "line, ms",
    "MiB",
    "BLEU",
    "speed",
    "latency",
    "memory",
)


def suite_grids(cores: int) -> list[BenchGrid]:
    """Settings of the suite: all compute types that this processor has, greedy and beam 5, one thread and all cores."""
    types: list[ComputeType] = ["float32", "int8"]
    if has_bf16(torch.device("cpu")):
        types.append("bf16")
    peer: EngineName | None = None if importlib.util.find_spec("ctranslate2") is None else "ctranslate2"
    one = BenchGrid(compute_types=types, peer=peer, threads=1)
    return [one] if cores == 1 else [one, replace(one, workers=[cores], threads=cores)]


def suite_tables(results: Sequence[BenchResult], rates: dict[PrecisionName, float] | None) -> Iterator[Table]:
    """Tables of translation and training; `rates`: tokens per second of a training by precision, None: not measured."""
    done = [each for each in results if each.error is None]
    peers = {_work(each.setting): each for each in done if each.setting.engine != "mtkit"}
    rows = [_row(each, peers.get(_work(each.setting)) if each.setting.engine == "mtkit" else None) for each in done]
    # for each search and number of workers, the fastest compute type of mtkit beside the fastest of the peer
    for beam_size, workers in dict.fromkeys((each.setting.beam_size, each.setting.workers) for each in done):
        same = [each for each in done if (each.setting.beam_size, each.setting.workers) == (beam_size, workers)]
        ours, theirs = ([each for each in same if (each.setting.engine == "mtkit") is own] for own in (True, False))
        if ours and theirs:
            best, peer = (max(each, key=lambda result: result.sentences_per_second) for each in (ours, theirs))
            rows.append(_row(replace(best, actual_compute_type=f"best: {best.actual_compute_type}"), peer))
    yield Table(SUITE_COLUMNS, rows, text=SUITE_COLUMNS[:4])
    if rates is not None:
        yield Table(["precision", "tokens/s"], [[each, f"{rate:,.0f}"] for each, rate in rates.items()], ["precision"])


def suite_notes(machine: Machine) -> Iterator[str]:
    """Lines about where the suite was measured."""
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items() if version)
    load = "unknown" if machine.load is None else f"{machine.load:.1f}"
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    yield f"Machine: {machine.cores} cores of {machine.processor} ({' '.join(machine.instructions)}); {today}."
    yield f"Software: {versions}. Float32 products by {machine.matmul}. Load before the run: {load}."
    yield "Speed, latency and memory of mtkit are also given as multiples of the other engine's."


def _work(setting: BenchSetting) -> BenchSetting:
    """The setting without its engine: what two engines are compared on."""
    return replace(setting, engine="mtkit")


def _row(result: BenchResult, peer: BenchResult | None) -> list[str]:
    setting = result.setting
    cells = [
        "greedy" if setting.beam_size == 1 else f"beam {setting.beam_size}",
        result.actual_compute_type or "",
        f"{setting.workers} × {setting.threads_per_worker}",
        setting.engine,
        f"{result.sentences_per_second:,.0f}",
        f"{result.latency_p50:.1f}",
        f"{result.memory:,.0f}",
        "" if result.bleu is None else f"{result.bleu:.2f}",
    ]
    if peer is None:
        return [*cells, "", "", ""]
    return [
        *cells,
        f"{result.sentences_per_second / peer.sentences_per_second:.2f}",
        f"{result.latency_p50 / peer.latency_p50:.2f}",
        f"{result.memory / peer.memory:.2f}",
    ]
