"""Training and translation of model T beside OpenNMT-py, in turn, on the same machine in the same minutes.

    python tools/benchmarks/peers.py [--work FOLDER] [--threads 2] [--rounds 3] [--model rnn] [--training-only]

With `--model rnn` it is the training of a recurrent model with attention and input feeding.

Multi30k English-German from the folder MTKIT_CORPORA (default ../shared/corpora). Both sides get the same pieces, the
same budget of 4,096 padded tokens a batch and the same number of threads; a token is a piece or an end of sentence of
either side. In translation every line is decoded to exactly 15 pieces, so that both do the same number of steps with
untrained weights, and ours is told not to translate lines with loops once more, which the peer never does; what is
timed is the whole command on 2,000 lines less the whole command on 50. Our side also turns text into pieces and back in
that time. Each figure is the median of the rounds, with the least and the largest. bf16 is measured only where the
processor has instructions for it.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import model_t
import torch
from opennmt import OpenNMT

from mtkit.hardware import has_bf16
from mtkit.text.tokenizer import TokenizerPair

LENGTH = 15  # pieces of every translation; the mean of the test set's references
FEW, MANY = 50, 2000
BEAMS = {1: 64, 5: 32}  # beam size: OpenNMT-py's batch size, its best of 16 ... 128


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, default=Path("build/peers").absolute())
    parser.add_argument("--peer-venv", type=Path, help="an environment that has OpenNMT-py; made in WORK if not given")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--model", choices=sorted(model_t.MODELS), default="T")
    parser.add_argument("--training-only", action="store_true", help="no translation")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    venv = options.peer_venv or options.work / "opennmt-venv"
    peer = OpenNMT.install(venv, options.work / "opennmt", options.threads)
    speeds = measure(options, peer)
    for title, rows in speeds.items():
        print_table(title, rows)


def measure(options: argparse.Namespace, peer: OpenNMT) -> dict[str, dict[str, list[float]]]:
    """Rates by table and row, one number a round."""
    work, threads, updates = options.work, options.threads, options.updates
    types = ("bf16", "float32") if has_bf16(torch.device("cpu")) else ("float32",)
    report_every = updates // 4
    shape = {"updates": updates, "report_every": report_every, "threads": threads, "model": options.model}
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(options.rounds):
        training = found["training, source + target tokens/s"]
        for precision in types:
            rates = model_t.train(work, precision=precision, **shape)
            training[f"mtkit {precision}"].append(statistics.median(rates))
        sides = write_pieces(work)
        rates = peer.train(*sides, steps=updates, report_every=report_every, model=options.model)
        training["OpenNMT-py"].append(statistics.median(rates))
        if options.training_only or options.model != "T":
            continue
        for beam_size, batch_size in BEAMS.items():
            rows = found[f"translation, beam {beam_size}, sentences/s"]
            for compute_type, workers in itertools.product((*types, "int8"), sorted({1, threads})):
                rate = our_rate(work, beam_size, compute_type, threads=threads, workers=workers)
                rows[f"mtkit {compute_type}, workers: {workers}"].append(rate)
            rows["OpenNMT-py"].append(peer_rate(peer, work, updates, beam_size, batch_size))
    return found


def our_rate(work: Path, beam_size: int, compute_type: str, *, threads: int, workers: int) -> float:
    """Sentences per second of `mtkit translate` with so many threads, divided among the workers."""
    lines = read("test_2016_flickr.en") + read("val.en")

    def seconds(count: int) -> float:
        return model_t.translate(
            work,
            lines[:count],
            beam_size=beam_size,
            length=LENGTH,
            compute_type=compute_type,
            threads=threads,
            workers=workers,
        )

    return (MANY - FEW) / (seconds(MANY) - seconds(FEW))


def peer_rate(peer: OpenNMT, work: Path, updates: int, beam_size: int, batch_size: int) -> float:
    """Sentences per second of `onmt_translate`."""
    src = TokenizerPair.load(work / "run/tokenizer").src
    lines = read("test_2016_flickr.en") + read("val.en")
    pieces = [" ".join(src.ids_to_tokens(ids)) for ids in src.encode(lines[:MANY])]

    def seconds(count: int) -> float:
        return peer.translate(pieces[:count], steps=updates, beam_size=beam_size, length=LENGTH, batch_size=batch_size)

    return (MANY - FEW) / (seconds(MANY) - seconds(FEW))


def write_pieces(work: Path) -> tuple[Path, Path, Path]:
    """The training text in our pieces, and their list, as OpenNMT-py reads them."""
    tokenizers = TokenizerPair.load(work / "run/tokenizer")
    for side, tokenizer in (("en", tokenizers.src), ("de", tokenizers.tgt)):
        with (work / f"train.{side}").open("w", encoding="utf-8") as file:
            for ids in tokenizer.encode(read(f"train.{side}"), threads=2):
                file.write(" ".join(tokenizer.ids_to_tokens(ids)) + "\n")
    vocab = work / "vocab"
    names = tokenizers.src.ids_to_tokens(range(tokenizers.src.vocab.size))
    vocab.write_text("".join(f"{name}\t1\n" for name in names if name and not name.isspace()), encoding="utf-8")
    return work / "train.en", work / "train.de", vocab


def read(name: str) -> list[str]:
    """Lines of a file of Multi30k."""
    with gzip.open(model_t.CORPORA / "multi30k" / f"{name}.gz", "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]


def print_table(title: str, rows: dict[str, Sequence[float]]) -> None:
    """Median, least and largest of each row, and its ratio to the peer's, round by round."""
    peer = rows["OpenNMT-py"]
    print(f"\n| {title} | median | least ... largest | ratio to OpenNMT-py |\n|---|---|---|---|")
    for name, rates in rows.items():
        ratio = statistics.median(own / other for own, other in zip(rates, peer, strict=True))
        spread = f"{min(rates):,.0f} ... {max(rates):,.0f}"
        print(f"| {name} | {statistics.median(rates):,.0f} | {spread} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
