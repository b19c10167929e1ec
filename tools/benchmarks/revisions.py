"""Speed and memory of two checkouts of mtkit, in interleaved rounds: training Model T, translation, and the server.

    python tools/benchmarks/revisions.py OLD_CHECKOUT NEW_CHECKOUT CORPUS_FOLDER [--model MODEL] [--rounds 3]

CORPUS_FOLDER is the folder that `mtkit fetch multi30k` writes. Both checkouts run with the packages of this
interpreter. Training is measured in tokens per second with two threads, in float32. Translation is measured for each
compute type in processor time of one thread, and for beam 5 with two workers in seconds of a command of 4,000 lines
less those of a command of 64. The server has one worker; requests of one line and of 50 are measured by the clock and
in processor time. Memory is the most that a process has had resident. MODEL is one that both checkouts read; else each
trains one of 250 updates. Equal hashes mean that both translate to the same text.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from server_load import processor_seconds, send_all, server  # beside this file

T = TypeVar("T")
Place = tuple[Path, Path]  # a checkout, and its model or run
COMMON = [
    "corpus.train=[{{src: {0}/train.en.gz, tgt: {0}/train.de.gz}}]",
    "corpus.valid={{src: {0}/val.en.gz, tgt: {0}/val.de.gz}}",
    "corpus.test={{flickr2016: {{src: {0}/test_2016_flickr.en.gz, tgt: {0}/test_2016_flickr.de.gz}}}}",
    "training.precision=float32",
    "training.validation.sentences=0",
]
MODEL_T = ["tokenizer.vocab_size=8000", "model.d_model=256", "model.d_ff=1024", "training.batch_tokens=4096"]
SMALL = ["tokenizer.vocab_size=4000", "training.batch_tokens=2048"]


class Search(NamedTuple):
    """A way of translation.

    Attributes:
        overrides: of the recipe's `search:` section.
        count: lines.
        at_once: lines that are translated together; 0: all.
        models: copies of the model, an ensemble.
        constraint: on every line.
        with_scores: with log-probabilities and alignments.
    """

    overrides: tuple[str, ...]
    count: int = 200
    at_once: int = 0
    models: int = 1
    constraint: dict[str, object] = {}  # noqa: RUF012  # of a named tuple
    with_scores: bool = False


SEARCHES = {
    "greedy": Search(("search.beam_size=1",), count=1000),
    "beam 5": Search(("search.beam_size=5",), count=500),
    "one line": Search(("search.beam_size=5",), count=100, at_once=1),
}
REQUESTS = {
    "coverage": Search(("search.beam_size=5", "search.coverage_penalty=0.2")),
    "prefix": Search(("search.beam_size=5",), constraint={"prefix": "Ein"}),
    "forbidden texts": Search(("search.beam_size=5",), constraint={"exclude": ["Mann", "Frau"]}),
    "sampling": Search(("search.method={kind: sampling, top_k: 10}",), count=500),
    "alignments, greedy": Search(("search.beam_size=1",), count=500, with_scores=True),
    "alignments": Search(("search.beam_size=5",), with_scores=True),
}
WRITTEN = {  # that run as written, in Python and torch
    "diverse beams": Search(("search.beam_size=6", "search.method={kind: diverse, groups: 3}")),
    "ensemble": Search(("search.beam_size=5",), models=2),
    "required phrases": Search(("search.beam_size=5",), constraint={"include": ["Hund"]}),
}
WORKERS = 2
REQUEST_SIZES = (1, 50)  # lines
PARTS = ("training", "searches", "requests", "written", "workers", "server")
COMPUTE_TYPES = ("float32", "bf16", "int8")
PROGRAM = """if True:
    import hashlib, json, resource, sys, time
    from pathlib import Path
    from mtkit import load_model
    try:
        from mtkit.translate.lines import ConstrainedLine
    except ImportError:  # before 2026-11-28
        from mtkit.translate.constraints import ConstrainedLine
    from mtkit.translate.translation import TranslationOptions
    run, text, compute_type, search = sys.argv[1:]
    overrides, count, at_once, models, constraint, with_scores = json.loads(search)
    with open(text, encoding="utf-8") as file:
        lines = [line.rstrip("\\n") for line in file][:count]
    if constraint:
        lines = [ConstrainedLine(text=line, **constraint) for line in lines]
    settings = {"search_overrides": overrides, "compute_type": compute_type, "device": "cpu"}
    options = TranslationOptions(with_scores=with_scores)
    translator = load_model([Path(run)] * models, **settings, options=options)
    translator.translate_lines(lines[:64])
    size = at_once or len(lines)
    start = time.process_time()
    batches = [lines[first : first + size] for first in range(0, len(lines), size)]
    hyps = [hyp for batch in batches for hyp in translator.translate_lines(batch)]
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(seconds, memory, hashlib.sha256("\\n".join(hyps).encode()).hexdigest()[:12])
"""


def run(checkout: Path, threads: int, *words: str) -> str:
    """What a process of one of the checkouts prints; Python looks for modules in the working folder first."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([sys.executable, *words], env=environment, cwd=checkout, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr[-1000:]}")
    return done.stdout


def train(checkout: Path, folder: Path, corpus: Path, updates: int, *keys: str) -> float:
    """Tokens per second of a training from the start."""
    schedule = [f"training.{key}={updates}" for key in ("max_updates", "validate_every", "checkpoint_every")]
    overrides = [*(each.format(corpus) for each in COMMON), *schedule, *keys]
    run(checkout, 2, "-m", "mtkit", "train", "quickstart", *overrides, "--run-dir", str(folder), "--fresh")
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return float(next(event["tokens_per_second"] for event in events if event["event"] == "end"))


def translate(checkout: Path, model: Path, text: Path, compute_type: str, search: Search) -> tuple[float, float, str]:
    """Processor seconds, mebibytes and a hash of the translations of one process."""
    arguments = (str(model), str(text), compute_type, json.dumps(search))
    seconds, memory, digest = run(checkout, 1, "-c", PROGRAM, *arguments).split()
    return float(seconds), float(memory), digest


def translate_with_workers(checkout: Path, model: Path, text: Path, compute_type: str) -> float:
    """Seconds of a command with two workers, without those that a text of 64 lines takes."""
    few, many = text.with_name("few.txt"), text.with_name("many.txt")
    few.write_text("".join(text.read_text().splitlines(keepends=True)[:64]))
    many.write_text(4 * text.read_text())
    seconds = []
    for source in (few, many):
        begin = time.perf_counter()
        run(checkout, 1, "-m", "mtkit", "translate", str(model), str(source), "-o", str(text.with_suffix(".out")),
            "--compute-type", compute_type, "--workers", str(WORKERS), "--beam-size", "5")  # fmt: skip
        seconds.append(time.perf_counter() - begin)
    return seconds[1] - seconds[0]


def serve(checkout: Path, model: Path, text: Path, size: int) -> tuple[float, float]:
    """Seconds, and processor seconds of the server, for all lines in requests of some lines each."""
    lines = text.read_text().split("\n")[:-1]
    with server(str(model), "--workers", "1", "--cache", "0", checkout=checkout) as (pid, port):
        asyncio.run(send_all(port, lines[:64], size=size, connections=16))
        used = processor_seconds(pid)
        seconds = asyncio.run(send_all(port, lines, size=size, connections=16))
        return seconds, processor_seconds(pid) - used


def in_order(
    sides: Sequence[int], places: Sequence[Place], measure: Callable[..., T], *arguments: object
) -> tuple[T, T]:
    """What is measured of the old and of the new checkout, one after the other in the order of the sides."""
    found = {side: measure(*places[side], *arguments) for side in sides}
    return found[0], found[1]


def main() -> None:
    """Measure in rounds, and print medians of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path, nargs=2, metavar="CHECKOUT", help="Old and new checkout.")
    parser.add_argument("corpus", type=Path, help="Folder of Multi30k.")
    parser.add_argument("--model", type=Path, help="Model folder that both read.")
    parser.add_argument("--rounds", type=int, default=3, help="Interleaved rounds.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="What is measured.")
    parser.add_argument("--compute-types", nargs="+", default=COMPUTE_TYPES, help="Compute types of translations.")
    options = parser.parse_args()
    checkouts, corpus = [path.resolve() for path in options.checkouts], options.corpus.resolve()
    parts = {"searches": SEARCHES, "requests": REQUESTS, "written": WRITTEN}
    searches = {name: each for part in options.parts for name, each in parts.get(part, {}).items()}
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        text = Path(temporary) / "text"
        text.write_bytes(gzip.decompress((corpus / "test_2016_flickr.en.gz").read_bytes()))
        folders = [options.model.resolve() if options.model else Path(temporary) / side for side in ("old", "new")]
        places = list(zip(checkouts, folders, strict=True))
        if not options.model:
            for checkout, folder in places:
                train(checkout, folder, corpus, 250, *SMALL)
        for number in range(options.rounds):
            sides = (0, 1) if number % 2 == 0 else (1, 0)
            if "training" in options.parts:
                scratch = [(checkout, Path(temporary) / "t") for checkout in checkouts]
                old, new = in_order(sides, scratch, train, corpus, 24, *MODEL_T)
                ratios.setdefault("training", []).append(new / old)
            for size in REQUEST_SIZES if "server" in options.parts else ():
                old, new = in_order(sides, places, serve, text, size)
                for name, before, after in zip(("clock", "processor"), old, new, strict=True):
                    ratios.setdefault(f"server, {size} lines a request, {name}", []).append(before / after)
                print(f"server, {size} lines a request", "old", *old, "new", *new, flush=True)
            for compute_type in options.compute_types:
                for name, search in searches.items():
                    old, new = in_order(sides, places, translate, text, compute_type, search)
                    name = f"{name}, {compute_type}"
                    ratios.setdefault(name, []).append(old[0] / new[0])
                    ratios.setdefault(f"{name}, memory", []).append(old[1] / new[1])
                    print(name, "old", *old, "new", *new, flush=True)
                if "workers" in options.parts:
                    old, new = in_order(sides, places, translate_with_workers, text, compute_type)
                    ratios.setdefault(f"two workers, {compute_type}", []).append(old / new)
                    print(f"two workers, {compute_type}", "old", old, "new", new, flush=True)
    for name, each in ratios.items():
        print(f"{name}: {statistics.median(each):.3f} ({min(each):.3f} to {max(each):.3f})")


if __name__ == "__main__":
    main()
