"""What translation with a model costs, and what must not change it: four comparisons, each within one run.

    python tools/benchmarks/translation_costs.py MODEL INPUT [--lines 10000] [--beam-size 1] [--only shape]

MODEL is a model folder or a finished run. Everything is float32 on one thread. The parts:
- cold start: one line through `mtkit translate`, a new process, wall clock, the least of some;
- memory: the peak of a process that translates INPUT with beams of 5 and of 50;
- length: processor time per piece where every line is made 40 and 400 pieces long (greedy), of linear layers and of
  the rest apart;
- shape: lines whose translation changes with the batch size, their order, or the number of workers. Two hypotheses
  whose scores differ by less than 1e-4 count as a tie.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from mtkit.text.lines import read_lines
from mtkit.translate.load import load_translator
from mtkit.translate.translation import Translation
from mtkit.translate.translator import TranslationOptions, Translator
from mtkit.translate.workers import WorkerPool

STARTS = 5
LENGTHS = (40, 400)  # pieces
BEAMS = (5, 50)
TIE = 1e-4  # nats, in the score
LINEAR = ("aten::addmm", "aten::mm")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("--lines", type=int, default=10_000, help="for the last part; INPUT is repeated with changes")
    parser.add_argument("--beam-size", type=int, help="for the last part; the model's own unless given")
    parser.add_argument("--only", choices=["shape"], help="this part alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = list(read_lines(options.input))
    if options.only is None:
        print_costs(options, lines)
    search = [] if options.beam_size is None else [f"search.beam_size={options.beam_size}"]
    print_shapes(options.model, varied(lines, options.lines), search)


def print_costs(options: argparse.Namespace, lines: Sequence[str]) -> None:
    """Of starting, of a wide beam, of long lines."""
    print(f"cold start: {min(cold_start(options.model, lines[0]) for _ in range(STARTS)):.2f} s")
    few, many = (peak_memory(options.model, options.input, beam) for beam in BEAMS)
    for beam, peak in zip(BEAMS, (few, many), strict=True):
        print(f"memory, beam {beam}: {peak / 2**20:.0f} MB, {peak / few:.2f} times")
    print_lengths({length: time_per_piece(options.model, lines[:64], length) for length in LENGTHS})


def cold_start(model: Path, line: str) -> float:
    """Seconds of a process that translates one line."""
    begin = time.perf_counter()
    subprocess.run(command(model), input=f"{line}\n".encode(), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def peak_memory(model: Path, source: Path, beam_size: int) -> int:
    """Bytes of a process that translates the file."""
    process = subprocess.Popen([*command(model), str(source), "-o", os.devnull, "--beam-size", str(beam_size)])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"mtkit translate ended with status {status}")
    return usage.ru_maxrss * 1024


def command(model: Path) -> list[str]:
    """`mtkit translate` as a process of its own."""
    return [sys.executable, "-m", "mtkit", "translate", str(model), "--compute-type", "float32"]


def time_per_piece(model: Path, lines: Sequence[str], length: int) -> tuple[float, float]:
    """Microseconds for each piece that comes out, of linear layers and of everything else."""
    exactly = f"{{factor: 0, offset: {length}}}"
    overrides = ["search.beam_size=1", f"search.min_length={exactly}", f"search.max_length={exactly}"]
    translator = make(model, [*overrides, "search.retry_loops=false"])
    translator.translate_lines(lines[:8])
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        translator.translate_lines(lines)
    spent = {event.key: event.self_cpu_time_total for event in profiled.key_averages()}
    linear = sum(spent.get(name, 0.0) for name in LINEAR)
    pieces = len(lines) * length
    return linear / pieces, (sum(spent.values()) - linear) / pieces


def print_lengths(found: dict[int, tuple[float, float]]) -> None:
    """A row for each length, and the ratio of the longest to the shortest."""
    for length, (linear, rest) in found.items():
        print(f"{length} pieces a line: {linear:.1f} µs a piece in linear layers, {rest:.1f} in the rest")
    short, long = found[LENGTHS[0]], found[LENGTHS[-1]]
    print(f"longer costs {long[0] / short[0]:.2f} times in linear layers, {long[1] / short[1]:.2f} times in the rest")


def print_shapes(model: Path, lines: Sequence[str], search: Sequence[str]) -> None:
    """How many lines come out otherwise than in batches of the usual size, one process, given order."""
    usual = list(make(model, search).translate(lines))
    print(f"of {len(lines):,} lines:", flush=True)
    for tokens in (256, 1024, 20_000):
        found = make(model, search, batch_tokens=tokens).translate(lines)
        report(f"batches of {tokens:,} places", usual, found)
    order = random.Random(1).sample(range(len(lines)), len(lines))
    mixed = make(model, search).translate([lines[i] for i in order])
    report("another order", [usual[i] for i in order], mixed)
    with WorkerPool(partial(make, model, search), 2) as pool:
        report("two workers", usual, pool.translate(lines))


def report(name: str, usual: Iterable[Translation], found: Iterable[Translation]) -> None:
    """Print how many differ."""
    pairs = [(a, b) for a, b in zip(usual, found, strict=True) if a.hyp != b.hyp]
    ties = sum(abs(a.score - b.score) < TIE for a, b in pairs)
    print(f"{name}: {len(pairs) - ties} differ, and {ties} that are ties", flush=True)


def make(model: Path, overrides: Sequence[str] = (), batch_tokens: int | None = None) -> Translator:
    """The model's translator."""
    options = TranslationOptions(batch_tokens=batch_tokens)
    return load_translator(
        model, search_overrides=list(overrides), compute_type="float32", options=options, device="cpu"
    )


def varied(lines: Sequence[str], count: int) -> list[str]:
    """So many different lines: those given, then each of them followed by another."""
    further = (f"{a} {b}" for shift in itertools.count(1) for a, b in zip(lines, lines[shift:], strict=False))
    return list(itertools.islice(itertools.chain(lines, further), count))


if __name__ == "__main__":
    main()
