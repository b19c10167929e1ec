"""How fast text becomes a binary corpus, beside sentencepiece's own rate on the same lines in the same run.

    python tools/benchmarks/preprocess_speed.py [--pairs 500000] [--threads 2]

The text is Multi30k and Tatoeba from the folder MTKIT_CORPORA (default ../shared/corpora), repeated until there are
enough pairs. The raw rate is one call of sentencepiece over lines that are in memory already; ours counts the lines of
both files, reads, cleans, segments, hashes and writes durably. Two lines are segmented for each pair.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

import sentencepiece

from mtkit.corpus.binarise import binarise
from mtkit.corpus.config import CleaningConfig
from mtkit.text.config import TokenizerConfig
from mtkit.text.lines import read_lines
from mtkit.text.tokenizer import TokenizerPair
from mtkit.text.train_tokenizer import train_pair

CORPORA = Path(os.environ.get("MTKIT_CORPORA", "../shared/corpora"))
FILES = {side: [CORPORA / f"{name}/train.{side}.gz" for name in ("multi30k", "tatoeba-de-en")] for side in ("en", "de")}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=500_000)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train_pair(FILES["en"][:1], FILES["de"][:1], folder, TokenizerConfig())
        src, tgt = (write_repeated(FILES[side], folder / side, options.pairs) for side in ("en", "de"))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        report = binarise(
            src, tgt, folder / "store", TokenizerPair.load(folder), CleaningConfig(), threads=options.threads
        )
        ours = 2 * options.pairs / (time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        raw = raw_rate(folder, [src, tgt], options.threads)
    print("; ".join(report.summary()))
    print(f"memory: {before / 1024:.0f} MB before, {after / 1024:.0f} MB at most")
    print(f"preprocess    {ours:10,.0f} lines/s")
    print(f"sentencepiece {raw:10,.0f} lines/s (raw)")
    print(f"ratio         {ours / raw:10.2f} (must reach 0.6)")


def write_repeated(sources: list[Path], path: Path, count: int) -> Path:
    """Write `count` lines of the sources, over and over."""
    lines = [line for source in sources for line in read_lines(source)]
    path.write_text("".join(f"{line}\n" for line in islice(cycle(lines), count)), encoding="utf-8")
    return path


def raw_rate(folder: Path, files: list[Path], threads: int) -> float:
    """Lines per second of sentencepiece alone."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    lines = [line for path in files for line in read_lines(path)]
    start = time.perf_counter()
    processor.encode(lines, num_threads=threads)
    return len(lines) / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
