"""Translation beside CTranslate2, the same weights on one thread each, in turn: processor seconds, not wall clock.

    python tools/benchmarks/decoding_speed.py MODEL INPUT [--rounds 3] [--beam-sizes 1 5] [--compute-types float32 int8]

MODEL is a model folder or a finished run; it is exported for CTranslate2 first. Each engine translates INPUT once a
round, with the search of the model and the beam asked for; the least of the rounds counts, so that the ratios also hold
on a machine that does other things. Lines that run into a loop are not translated again, which CTranslate2 does not do
either: a model after a short training has many of them. Our side turns text into pieces and back in that time;
CTranslate2 is handed pieces, and runs at the best of some batch sizes.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import ctranslate2
import torch

from mtkit.export.ctranslate2 import export_ctranslate2
from mtkit.inference.support import ComputeType
from mtkit.text.lines import read_lines
from mtkit.text.source_prefix import NO_PREFIX
from mtkit.translate.load import load_translator
from mtkit.translate.translator import TranslationOptions, Translator
from mtkit.translate.workers import translator_pool

PEER_BATCHES = (32, 64, 128)  # sentences; its best was among these on every processor that was tried


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beam-sizes", type=int, nargs="*", default=[1, 5])
    parser.add_argument("--compute-types", nargs="*", default=["float32", "int8"])
    parser.add_argument("--batch-tokens", type=int, nargs="*", default=[None])
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = list(read_lines(options.input))
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as commands:
        exported = Path(temporary) / "exported"
        export_ctranslate2(options.model, exported)
        print("| beam | numbers | engine | batch | seconds | sentences/s | of CTranslate2's |")
        print("|---|---|---|---|---|---|---|")
        for beam_size in options.beam_sizes:
            for compute_type in options.compute_types:
                choice = (lines, beam_size, compute_type, options.batch_tokens)
                ways = our_ways(commands, "mtkit", options.model, *choice)
                if compute_type in ctranslate2.get_supported_compute_types("cpu"):  # bf16 on few processors
                    ways |= peer_ways(options.model, exported, lines, beam_size, compute_type)
                report(beam_size, compute_type, least(ways, options.rounds), len(lines))


def our_ways(
    commands: ExitStack,
    name: str,
    model: Path,
    lines: list[str],
    beam_size: int,
    compute_type: ComputeType,
    sizes: list[int | None],
) -> dict[tuple[str, object], Callable[[], object]]:
    """What translates all lines once, as `mtkit translate` would, by engine and batch size."""
    ways: dict[tuple[str, object], Callable[[], object]] = {}
    for size in sizes:
        make = partial(
            load_translator,
            model,
            search_overrides=[f"search.beam_size={beam_size}", "search.retry_loops=false"],
            compute_type=compute_type,
            options=TranslationOptions(batch_tokens=size),
            device="cpu",
        )
        translate = commands.enter_context(translator_pool(make, 1))
        ways[name, size or "default"] = lambda translate=translate: list(translate(lines))
    return ways


def peer_ways(
    model: Path, exported: Path, lines: list[str], beam_size: int, compute_type: ComputeType
) -> dict[tuple[str, object], Callable[[], object]]:
    """As `our_ways`; every line has the longest limit of all, as there is one for a call."""
    ours: Translator = load_translator(model, device="cpu")
    tokenizer = ours.tokenizers.src
    start, begin = NO_PREFIX.ids(ours.tokenizers), NO_PREFIX.tgt_ids(ours.tokenizers)  # tokens of languages
    pieces = [tokenizer.ids_to_tokens([*start, *ids]) for ids in tokenizer.encode(lines)]
    longest = max(ours.search.max_length.of(len(each)) for each in pieces)
    peer = ctranslate2.Translator(str(exported), compute_type=compute_type, inter_threads=1, intra_threads=1)

    def translate(size: int) -> object:
        return peer.translate_batch(
            pieces,
            max_batch_size=size,
            beam_size=beam_size,
            length_penalty=ours.search.penalty().alpha,
            max_decoding_length=longest + len(begin),
            target_prefix=[ours.tokenizers.tgt.ids_to_tokens(begin)] * len(pieces) if begin else None,
        )

    return {("CTranslate2", size): lambda size=size: translate(size) for size in PEER_BATCHES}


def least(ways: dict[tuple[str, object], Callable[[], object]], rounds: int) -> dict[tuple[str, object], float]:
    """Processor seconds of each, the best of the rounds, after one to warm up."""
    found = dict.fromkeys(ways, float("inf"))
    for number in range(rounds + 1):
        for name, translate in ways.items():
            began = time.process_time()
            translate()
            if number:
                found[name] = min(found[name], time.process_time() - began)
    return found


def report(beam_size: int, compute_type: str, found: dict[tuple[str, object], float], lines: int) -> None:
    """One row for each of ours and one for the best of CTranslate2's."""
    best = min((seconds for (engine, _), seconds in found.items() if engine == "CTranslate2"), default=math.nan)
    for (engine, size), seconds in found.items():
        if engine != "CTranslate2" or seconds == best:
            rate = f"{seconds:.2f} | {lines / seconds:.0f} | {best / seconds:.2f}"
            print(f"| {beam_size} | {compute_type} | {engine} | {size} | {rate} |", flush=True)


if __name__ == "__main__":
    main()
