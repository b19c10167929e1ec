"""One line at a time: mtkit beside CTranslate2, with the same weights.

    python tools/benchmarks/single_lines.py MODEL INPUT [--lines 300] [--rounds 3] [--beam-sizes 1 5]

MODEL is a model folder or a finished run; it is exported for CTranslate2 first. The engines take turns line by line, in
float32 on one thread. Of each line the least processor time of the rounds counts, and of an engine the median over the
lines, so that the ratios also hold on a machine that does other things. All three turn text into tokens and back.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import ctranslate2

from mtkit.export.ctranslate2 import export_ctranslate2
from mtkit.text.lines import read_lines
from mtkit.translate.load import load_translator

WARM_UP = 8  # lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beam-sizes", type=int, nargs="*", default=[1, 5])
    options = parser.parse_args()
    lines = list(read_lines(options.input))[: options.lines]
    with tempfile.TemporaryDirectory() as temporary:
        exported = Path(temporary) / "exported"
        export_ctranslate2(options.model, exported)
        print("| beam | engine | median of a line, ms | of CTranslate2's |")
        print("|---|---|---|---|")
        for beam_size in options.beam_sizes:
            ways = {
                "mtkit": own_way(options.model, beam_size),
                "CTranslate2": peer_way(options.model, exported, beam_size),
            }
            report(beam_size, medians(ways, lines, options.rounds))


def own_way(model: Path, beam_size: int) -> Callable[[str], object]:
    """What translates a line as `mtkit translate` would."""
    search = [f"search.beam_size={beam_size}"]
    translator = load_translator(model, search_overrides=search, compute_type="float32", device="cpu", threads=1)
    return lambda line: next(iter(translator.translate([line])))


def peer_way(model: Path, exported: Path, beam_size: int) -> Callable[[str], object]:
    """The same by CTranslate2 without mtkit, with the search of the model and mtkit's tokenizer."""
    ours = load_translator(model, device="cpu")
    source, target = ours.tokenizers.src, ours.tokenizers.tgt
    ids = {target.ids_to_tokens([number])[0]: number for number in range(target.vocab.size)}
    peer = ctranslate2.Translator(str(exported), compute_type="float32", inter_threads=1, intra_threads=1)

    def translate(line: str) -> object:
        (numbers,) = source.encode([line])
        (result,) = peer.translate_batch(
            [source.ids_to_tokens(numbers)],
            beam_size=beam_size,
            length_penalty=ours.search.penalty().alpha,
            max_decoding_length=ours.search.max_length.of(len(numbers)),
        )
        return target.decode([[ids[token] for token in result.hypotheses[0]]])

    return translate


def medians(ways: Mapping[str, Callable[[str], object]], lines: Sequence[str], rounds: int) -> dict[str, float]:
    """Median of each over the lines, ms of processor time, the least of the rounds for each line."""
    least = {name: [math.inf] * len(lines) for name in ways}
    for line in lines[:WARM_UP]:
        for translate in ways.values():
            translate(line)
    for _ in range(rounds):
        for number, line in enumerate(lines):
            for name, translate in ways.items():
                began = time.process_time()
                translate(line)
                least[name][number] = min(least[name][number], 1e3 * (time.process_time() - began))
    return {name: median(each) for name, each in least.items()}


def report(beam_size: int, found: Mapping[str, float]) -> None:
    """One row for each."""
    for engine, milliseconds in found.items():
        ratio = milliseconds / found["CTranslate2"]
        print(f"| {beam_size} | {engine} | {milliseconds:.2f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
