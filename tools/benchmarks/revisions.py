"""Speed of two checkouts of mtkit, in interleaved rounds: training Model T in float32, and greedy and beam translation.

    python tools/benchmarks/revisions.py OLD_CHECKOUT NEW_CHECKOUT CORPUS_FOLDER --rounds 3

CORPUS_FOLDER is the folder that `mtkit fetch multi30k` writes. Both checkouts run with the packages of this
interpreter. Training is measured in tokens per second with two threads, translation in processor time of one thread, by
a model of 250 updates that each checkout trains first. Equal hashes mean that both translate to the same text.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

COMMON = [
    "corpus.train=[{{src: {0}/train.en.gz, tgt: {0}/train.de.gz}}]",
    "corpus.valid={{src: {0}/val.en.gz, tgt: {0}/val.de.gz}}",
    "corpus.test={{flickr2016: {{src: {0}/test_2016_flickr.en.gz, tgt: {0}/test_2016_flickr.de.gz}}}}",
    "training.precision=float32",
    "training.validation.sentences=0",
]
MODEL_T = ["tokenizer.vocab_size=8000", "model.d_model=256", "model.d_ff=1024", "training.batch_tokens=4096"]
SMALL = ["tokenizer.vocab_size=4000", "training.batch_tokens=2048"]
SEARCHES = {"greedy": (1, 1000), "beam 5": (5, 400)}  # beam size, lines
PROGRAM = """if True:
    import gzip, hashlib, sys, time
    import torch
    torch.set_num_threads(1)
    from mtkit import load_model
    run, text, beam_size, count = sys.argv[1:]
    with gzip.open(text, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\\n") for line in file][: int(count)]
    settings = {"search_overrides": [f"search.beam_size={beam_size}"], "compute_type": "float32", "device": "cpu"}
    translator = load_model(run, **settings)
    translator.translate_lines(lines[:64])
    start = time.process_time()
    hyps = translator.translate_lines(lines)
    print(time.process_time() - start, hashlib.sha256("\\n".join(hyps).encode()).hexdigest()[:12])
"""


def run(checkout: Path, threads: int, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr[-1000:]}")
    return done.stdout


def train(checkout: Path, corpus: Path, folder: Path, updates: int, *keys: str) -> float:
    """Tokens per second of a training from the start."""
    schedule = [f"training.{key}={updates}" for key in ("max_updates", "validate_every", "checkpoint_every")]
    overrides = [*(each.format(corpus) for each in COMMON), *schedule, *keys]
    run(checkout, 2, "-m", "mtkit", "train", "quickstart", *overrides, "--run-dir", str(folder), "--fresh")
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return float(next(event["tokens_per_second"] for event in events if event["event"] == "end"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path, nargs=2, metavar="CHECKOUT", help="Old and new checkout.")
    parser.add_argument("corpus", type=Path, help="Folder of Multi30k.")
    parser.add_argument("--rounds", type=int, default=3, help="Interleaved rounds.")
    options = parser.parse_args()
    checkouts, corpus = [path.resolve() for path in options.checkouts], options.corpus.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary) / side for side in ("old", "new")]
        for checkout, folder in zip(checkouts, folders, strict=True):
            train(checkout, corpus, folder, 250, *SMALL)
        ratios: dict[str, list[float]] = {name: [] for name in ("training", *SEARCHES)}
        for number in range(options.rounds):
            sides = (0, 1) if number % 2 == 0 else (1, 0)
            speed = {side: train(checkouts[side], corpus, Path(temporary) / "t", 24, *MODEL_T) for side in sides}
            ratios["training"].append(speed[1] / speed[0])
            for name, (beam_size, count) in SEARCHES.items():
                text, results = str(corpus / "test_2016_flickr.en.gz"), {}
                for side in sides:
                    arguments = (str(folders[side]), text, str(beam_size), str(count))
                    results[side] = run(checkouts[side], 1, "-c", PROGRAM, *arguments).split()
                ratios[name].append(float(results[0][0]) / float(results[1][0]))
                print(name, "old", *results[0], "new", *results[1], flush=True)
    for name, each in ratios.items():
        print(f"{name}: new / old {statistics.median(each):.3f} ({min(each):.3f} to {max(each):.3f})")


if __name__ == "__main__":
    main()
