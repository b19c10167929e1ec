"""The whole benchmark of one model in one run: machine, translation beside a peer, training.

Speeds of different runs of a shared machine do not compare; what is compared here was measured together.
"""

from __future__ import annotations

import datetime
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from mtkit.bench.grid import BenchGrid, BenchResult, BenchSetting, EngineName
from mtkit.bench.machine import Machine
from mtkit.display import Table
from mtkit.hardware import has_bf16
from mtkit.inference.support import ComputeType
from mtkit.training.config import PrecisionName

COLUMNS = ("search", "type", "workers", "engine", "lines/s", "line, ms", "MiB", "BLEU", "speed", "latency", "memory")


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
    yield Table(COLUMNS, [*rows, *_best_rows(done)], text=COLUMNS[:4])
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
    return [
        "greedy" if setting.beam_size == 1 else f"beam {setting.beam_size}",
        result.actual_compute_type or "",
        f"{setting.workers} × {setting.threads_per_worker}",
        setting.engine,
        f"{result.sentences_per_second:,.0f}",
        f"{result.latency_p50:.1f}",
        f"{result.memory:,.0f}",
        "" if result.bleu is None else f"{result.bleu:.2f}",
        *_ratios(result, peer),
    ]


def _ratios(result: BenchResult, peer: BenchResult | None) -> tuple[str, str, str]:
    if peer is None:
        return "", "", ""
    return (
        f"{result.sentences_per_second / peer.sentences_per_second:.2f}",
        f"{result.latency_p50 / peer.latency_p50:.2f}",
        f"{result.memory / peer.memory:.2f}",
    )


def _best_rows(done: Sequence[BenchResult]) -> Iterator[list[str]]:
    """For each search and number of workers, the fastest compute type of mtkit beside the fastest of the peer."""
    for beam_size, workers in dict.fromkeys((each.setting.beam_size, each.setting.workers) for each in done):
        same = [each for each in done if (each.setting.beam_size, each.setting.workers) == (beam_size, workers)]
        ours, theirs = ([each for each in same if (each.setting.engine == "mtkit") is own] for own in (True, False))
        if ours and theirs:
            best, peer = (max(each, key=lambda result: result.sentences_per_second) for each in (ours, theirs))
            yield _row(replace(best, actual_compute_type=f"best: {best.actual_compute_type}"), peer)
