"""Fine-tuning by rule beside six settings by hand: the gain on own text, the loss on general text.

    python tools/benchmarks/finetune_settings.py MODEL TEXTS -o OUT [--updates 200] [--seeds 3] [--own NAME ...]

TEXTS has a folder for each text: `general` with train, test, and one for each own text with train, valid, test, each
as `.src` and `.tgt`. All runs train for the same number of updates of 2,048 tokens. The rule is `mtkit finetune` as it
is, in all seeds; by hand are three learning rates with a quarter and with half of the tokens from general text, in the
first seed; the one with the lowest loss on own valid is trained in the other seeds. A run of the rule that only watches
general text shows what is forgotten. Finished runs are kept: a repeated command goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

RATES = (3e-4, 1e-3, 3e-3)
SHARES = (0.25, 0.5)
TIMES = ("before", "after")


def main() -> None:
    """Train what is missing, and print a table of each text."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--own", nargs="+")
    options = parser.parse_args()
    names = options.own or sorted(each.name for each in options.texts.iterdir() if each.name != "general")
    for name in names:
        report(options, name)


def report(options: argparse.Namespace, name: str) -> None:
    """Print the table of an own text."""
    seeds = range(1, options.seeds + 1)
    settings = list(itertools.product(RATES, SHARES))
    by_hand = {setting: train(options, name, 1, *setting) for setting in settings}
    rule = [train(options, name, seed) for seed in seeds]
    forgetful = train(options, name, 1, share=0.0)
    rate, share = min(settings, key=lambda setting: valid_loss(by_hand[setting]))
    best = [by_hand[rate, share], *(train(options, name, seed, rate, share) for seed in seeds[1:])]
    rows = {"rule": rule, "rule, general text only watched": [forgetful], f"best by hand: {rate}, {share}": best}
    rows |= {f"by hand: {rate}, {share}": [run] for (rate, share), run in by_hand.items()}
    print(f"\n| {name} | seeds | own, general valid, nats | own before | own after | general before | general after |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for label, runs in rows.items():
        valid = (f"{statistics.mean(valid_loss(run, text) for run in runs):.3f}" for text in range(2))
        scores = (spread([bleu(run, *each) for run in runs]) for each in itertools.product(("own", "general"), TIMES))
        print(f"| {label} | {len(runs)} | {', '.join(valid)} | {' | '.join(scores)} |", flush=True)
    gains = [statistics.mean(gain(run) for run in runs) for runs in (rule, best)]
    print(f"\n{name}: gain of the rule / of the best by hand: {gains[0] / gains[1]:.2f}", flush=True)


def train(
    options: argparse.Namespace, name: str, seed: int, rate: float | None = None, share: float | None = None
) -> Path:
    """The folder of a finished run."""
    run: Path = options.output / name / f"rate-{rate or 'rule'}-share-{'rule' if share is None else share}-seed-{seed}"
    if (run / "comparison.json").exists():
        return run
    command = [sys.executable, "-m", "mtkit", "finetune", str(options.model), *files(options.texts / name / "train")]
    for option, folder, part in (
        ("--valid", name, "valid"),
        ("--test", name, "test"),
        ("--general", "general", "train"),
        ("--general-test", "general", "test"),
    ):
        command += [option, *files(options.texts / folder / part)]
    command += [f"training.max_updates={options.updates}", f"training.validate_every={options.updates // 2}"]
    command += ["training.batch_tokens=2048", f"training.seed={seed}"]
    command += [] if rate is None else [f"training.optimiser.learning_rate={rate}"]
    command += [] if share is None else ["--general-share", str(share)]
    begun = time.perf_counter()
    run.mkdir(parents=True, exist_ok=True)
    with (run.parent / f"{run.name}.log").open("w") as log:
        subprocess.run([*command, "-o", str(run)], check=True, stdout=log, stderr=log)
    print(f"{run}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    return run


def files(prefix: Path) -> list[str]:
    return [f"{prefix}.src", f"{prefix}.tgt"]


def valid_loss(run: Path, text: int = 0) -> float:
    """The loss on own (0) or general valid (1) of the best checkpoint on own valid, in nats a token."""
    events = map(json.loads, (run / "log.jsonl").read_text(encoding="utf-8").splitlines())
    losses = [[*each["nll_by_set"].values()] for each in events if each["event"] == "validation"]
    return float(min(losses)[text])


def bleu(run: Path, text: str, when: str) -> float:
    """BLEU of a test set before or after."""
    score: float = json.loads((run / "comparison.json").read_text(encoding="utf-8"))["test"][text][when]["bleu"]
    return score


def gain(run: Path) -> float:
    """BLEU that own text gained."""
    return bleu(run, "own", "after") - bleu(run, "own", "before")


def spread(values: Sequence[float]) -> str:
    """The mean, and the standard deviation if there are several."""
    deviation = f" ± {statistics.stdev(values):.1f}" if len(set(values)) > 1 else ""
    return f"{statistics.mean(values):.1f}{deviation}"


if __name__ == "__main__":
    main()
