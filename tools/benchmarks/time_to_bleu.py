"""How long Multi30k English-German takes to a BLEU beside JoeyNMT: the same Transformer, rate, batches and threads.

    python tools/benchmarks/time_to_bleu.py [--work FOLDER] [--threads 2] [--model T] [--bleu 30]

Both are trained from the beginning, one after the other, and translate test_2016_flickr greedily every so many updates;
the first time that cased sacreBLEU reaches the goal counts. Time is that number of updates times the median seconds of
an update, so that neither starting up nor translating is in it (JoeyNMT decodes without a cache of keys and values). A
batch is so many places, sentences times longest side, for both. The corpus is in the folder MTKIT_CORPORA (default
../shared/corpora).
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import model_t
from joeynmt import JoeyNMT, Progress, Shape

from mtkit.text.tokenizer import TokenizerPair

SHAPES = {
    "T": Shape(d_model=256, d_ff=1024, num_heads=4, layers=3, batch_tokens=4096, learning_rate=2e-3, warmup=400),
    "small": Shape(d_model=128, d_ff=256, num_heads=4, layers=3, batch_tokens=2048, learning_rate=3e-3, warmup=200),
}


def keys(shape: Shape, *, every: int, vocab: int, precision: str) -> list[str]:
    """What is otherwise than in model_t's recipe; the test set takes the place of the valid set."""
    test = model_t.CORPORA / "multi30k/test_2016_flickr"
    model = (
        f"{{kind: transformer, d_model: {shape.d_model}, d_ff: {shape.d_ff}, num_heads: {shape.num_heads}, "
        f"encoder_layers: {shape.layers}, decoder_layers: {shape.layers}, dropout: {shape.dropout}, "
        f"attention_dropout: {shape.dropout}, activation_dropout: {shape.dropout}}}"
    )
    return [
        f"corpus.valid={{src: {test}.en.gz, tgt: {test}.de.gz}}",
        f"tokenizer.vocab_size={vocab}",
        f"model={model}",
        f"training.batch_tokens={shape.batch_tokens}",
        f"training.validate_every={every}",
        "training.label_smoothing=0.1",
        f"training.optimiser={{kind: adam, learning_rate: {shape.learning_rate}}}",
        f"training.schedule={{kind: inverse_sqrt, warmup: {shape.warmup}}}",
        "training.ema=null",
        f"training.precision={precision}",
        "training.validation.sentences=1000",
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, default=Path("build/time-to-bleu").absolute())
    parser.add_argument("--peer-venv", type=Path, help="an environment that has JoeyNMT; made in WORK if not given")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", choices=sorted(SHAPES), default="T")
    parser.add_argument("--bleu", type=float, default=30.0)
    parser.add_argument("--updates", type=int, default=2000, help="of each side, at most")
    parser.add_argument("--every", type=int, default=100, help="updates between two translations of the test set")
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--precision", default="auto", help="ours: auto, float32 or bf16; the peer has float32")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    own, own_seconds = train_mtkit(options)
    peer = JoeyNMT.install(options.peer_venv or options.work / "venv", options.work / "joeynmt", options.threads)
    texts, tokenizer, vocab = peer_files(options.work)
    other, other_seconds = peer.train(
        texts, tokenizer, vocab, SHAPES[options.model], updates=options.updates, every=options.every
    )
    print_table(options.bleu, {"mtkit": (own, own_seconds), "JoeyNMT 2.3.0": (other, other_seconds)})


def train_mtkit(options: argparse.Namespace) -> tuple[list[Progress], float]:
    """BLEU by update, and the median seconds of an update."""
    run = options.work / "run"
    recipe = model_t.write_recipe(options.work, updates=options.updates, report_every=options.every // 5)
    shape, every = SHAPES[options.model], options.every
    changed = keys(shape, every=every, vocab=options.vocab, precision=options.precision)
    model_t.mtkit("train", recipe, *changed, "--run-dir", run, "--fresh", threads=options.threads)
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().rstrip("\n").split("\n")]
    progress = [Progress(event["update"], event["bleu"]) for event in events if event["event"] == "validation"]
    return progress, statistics.median(event["seconds_per_update"] for event in events if event["event"] == "train")


def peer_files(work: Path) -> tuple[dict[str, Path], Path, Path]:
    """The corpus as JoeyNMT reads it, our tokenizer's model and its pieces."""
    texts = {"train": work / "train", "dev": work / "dev"}
    for name, ours in (("train", "train"), ("dev", "test_2016_flickr")):
        for lang in ("en", "de"):
            with gzip.open(model_t.CORPORA / "multi30k" / f"{ours}.{lang}.gz") as packed:
                texts[name].with_suffix(f".{lang}").write_bytes(packed.read())
    tokenizer = TokenizerPair.load(work / "run/tokenizer").src
    model, vocab = work / "pieces.model", work / "pieces.txt"
    tokenizer.save(model)
    control = set(tokenizer.special_ids)
    pieces = tokenizer.ids_to_tokens([piece for piece in range(tokenizer.vocab.size) if piece not in control])
    vocab.write_text("".join(f"{piece}\n" for piece in pieces if piece.strip()), encoding="utf-8")
    shutil.rmtree(work / "joeynmt/model", ignore_errors=True)
    return texts, model, vocab


def print_table(goal: float, trainings: dict[str, tuple[list[Progress], float]]) -> None:
    """When each reached the goal, and how many times as long the second took."""
    print(f"| | s/update | updates to BLEU {goal:g} | time to BLEU {goal:g} | best BLEU |\n|---|---|---|---|---|")
    times = []
    for name, (progress, seconds) in trainings.items():
        reached = next((each.update for each in progress if each.bleu >= goal), None)
        best = max(each.bleu for each in progress)
        times.append(seconds * reached if reached else float("nan"))
        shown = f"{reached:,} | {times[-1] / 60:.1f} min" if reached else "not reached | -"
        print(f"| {name} | {seconds:.3f} | {shown} | {best:.1f} |")
    print(f"\nratio of the times: {times[1] / times[0]:.2f}")


if __name__ == "__main__":
    main()
