"""Memory of a long translation: it must not grow with the number of lines, whatever their lengths.

    python tools/benchmarks/translation_memory.py MODEL [--lines 300000] [--compute-type bf16] [--workers 1]

MODEL is a model folder or a finished run. The lines are beginnings of one or two sentences of the embedded corpus, of
1 to 10 words and all lengths equally often, so that hardly two batches have one shape. Every tenth of the lines it
prints the memory in use now (of the workers together), and at the end the processor time of a line. To compare with the
caches of oneDNN and torch as they are by default, set ONEDNN_PRIMITIVE_CACHE_CAPACITY=1024 LRU_CACHE_CAPACITY=1024.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import resource
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from mtkit.translate.load import load_translator
from mtkit.translate.translator import TranslationOptions
from mtkit.translate.workers import translator_pool

CORPUS = Path(__file__).parents[2] / "data" / "train.en"
LONGEST = 10  # words
PAGE = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--lines", type=int, default=300_000)
    parser.add_argument("--compute-type", default="bf16")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--beam-size", type=int, default=1)
    parser.add_argument("--flush-every", type=int, help="lines at a time; a window unless given")
    options = parser.parse_args()
    torch.set_num_threads(1)
    load = partial(
        load_translator,
        options.model,
        compute_type=options.compute_type,
        search_overrides=[f"search.beam_size={options.beam_size}"],
        options=TranslationOptions(flush_every=options.flush_every),
        device="cpu",
    )
    step = options.lines // 10
    with translator_pool(load, options.workers, flush_every=options.flush_every) as translate:
        begin = time.perf_counter()
        for translation in translate(random_lines(options.lines)):
            if translation.line % step == 0 or translation.line == step // 5:
                rate = translation.line / (time.perf_counter() - begin)
                print(f"{translation.line:>9,} lines {memory() / 2**20:7.0f} MB {rate:7.0f} lines/s", flush=True)
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    seconds = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    print(f"{options.compute_type}: {1e6 * seconds / options.lines:.0f} µs of processor time a line")


def random_lines(count: int) -> Iterator[str]:
    """Lines of 1 to LONGEST words."""
    rng = random.Random(1)
    sentences = CORPUS.read_text(encoding="utf-8").split("\n")[:-1]
    words = (" ".join(rng.choices(sentences, k=2)).split() for _ in range(count))
    return (" ".join(line[: rng.randint(1, LONGEST)]) for line in words)


def memory() -> int:
    """Bytes in use by this process, or by its workers together."""
    pids = [child.pid for child in multiprocessing.active_children()] or [os.getpid()]
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE for pid in pids)


if __name__ == "__main__":
    main()
