"""Processor time of `mtkit evaluate` beside sacreBLEU's own: BLEU, chrF and TER with intervals, in one run.

    python tools/benchmarks/evaluation_speed.py [--lines 1000000] [--check-lines 20000] [--corpora NAME ...]

The references are the English sides of corpora in the folder MTKIT_CORPORA (default ../shared/corpora) in random order,
repeated until there are enough lines. The translations are the references with a quarter of the words replaced, dropped
or exchanged with the next one, at random for each line. Both programs read the same files, each in its own process. TER
of long lines takes most of the time of both; corpora of short lines show best what mtkit adds.

sacreBLEU holds all samples of the bootstrap in memory, 112 GB for 1,000 samples of a million lines, and the n-grams of
all references, 20 GB. Its time for the samples is therefore extrapolated from FEW and MORE of them, since it grows by
the same amount with each, and its statistics are counted by calls of PIECE lines. Scores are compared on all lines,
intervals on the first `--check-lines`, for which sacreBLEU draws all samples: above 2^24 its sums are rounded.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import _bootstrap_resample

from mtkit.text.lines import read_lines

CORPORA = Path(os.environ.get("MTKIT_CORPORA", "../shared/corpora"))
NAMES = ("multi30k", "tatoeba-de-en", "tatoeba-fr-en", "manpages-en-de", "mafand-en-swa")
FEW, MORE, ALL = 5, 15, 1000  # samples
PIECE = 50_000  # lines
METRICS = {"bleu": BLEU, "chrf": CHRF, "ter": TER}
MAX_RATIO = 1.3
TOLERANCE = 1e-9


def main() -> None:
    """Measure and print; with --sacrebleu, the part of sacreBLEU."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--check-lines", type=int, default=20_000)
    parser.add_argument("--corpora", nargs="+", metavar="NAME", default=NAMES)
    parser.add_argument("--sacrebleu", nargs=2, metavar=("HYP", "REF"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sacrebleu:
        print(json.dumps(run_sacrebleu(*map(Path, options.sacrebleu), options.check_lines)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hyp, ref = write_texts(folder, options.lines, options.corpora)
        few = [write_head(path, options.check_lines) for path in (hyp, ref)]
        ours, seconds, memory = run_mtkit(hyp, ref, folder / "all.json")
        print(f"mtkit      {seconds:9.1f} s of processor time, {memory:.1f} GB of memory", flush=True)
        ours_few, _, _ = run_mtkit(*few, folder / "few.json")
        command = [sys.executable, __file__, "--check-lines", str(options.check_lines), "--sacrebleu"]
        theirs = json.loads(subprocess.run([*command, hyp, ref], check=True, stdout=subprocess.PIPE).stdout)
    print(f"sacreBLEU  {theirs['seconds']:9.1f} s: {theirs['parts']}")
    print(f"ratio      {seconds / theirs['seconds']:9.2f} (must be at most {MAX_RATIO})")
    for metric in METRICS:
        scores = abs(ours[metric] - theirs["all"][metric])
        ends = max(abs(ours_few[f"{metric}_{key}"] - theirs["few"][f"{metric}_{key}"]) for key in ("mean", "margin"))
        verdict = "equal" if max(scores, ends) <= TOLERANCE else "DIFFERENT"
        print(f"{metric:5} {ours[metric]:9.4f}: {verdict} (score {scores:.1e}, interval {ends:.1e})")


def write_texts(folder: Path, count: int, corpora: Sequence[str]) -> tuple[Path, Path]:
    """Write `count` references and translations."""
    sources = [CORPORA / name / "train.en.gz" for name in corpora]
    lines = [line for source in sources for line in read_lines(source)]
    random.Random(1).shuffle(lines)  # fewer lines are then like all of them
    refs = list(islice(cycle(lines), count))
    words = sorted({word for line in refs[:10_000] for word in line.split()})
    texts = {"hyp": [corrupted(line, i, words) for i, line in enumerate(refs)], "ref": refs}
    for name, text in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    return folder / "hyp", folder / "ref"


def corrupted(line: str, seed: int, words: list[str]) -> str:
    """The line with a quarter of its words changed."""
    rng = random.Random(seed)
    result: list[str] = []
    for word in line.split():
        kind = rng.randrange(12)
        result += [rng.choice(words)] if kind == 0 else [] if kind == 1 else [word]
        if kind == 2 and len(result) > 1:
            result[-2:] = result[:-3:-1]
    return " ".join(result) or line


def write_head(path: Path, count: int) -> Path:
    """Write the first lines of a file beside it."""
    head = path.with_suffix(".head")
    head.write_text("".join(f"{line}\n" for line in islice(read_lines(path), count)), encoding="utf-8")
    return head


def run_mtkit(hyp: Path, ref: Path, report: Path) -> tuple[dict[str, Any], float, float]:
    """The report of `mtkit evaluate`, its processor seconds and its memory in GB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "mtkit", "evaluate", hyp, "--ref", ref, "--json", report]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return next(iter(json.loads(report.read_text()).values())), seconds, after.ru_maxrss / (1 << 20)


def run_sacrebleu(hyp: Path, ref: Path, check_lines: int) -> dict[str, Any]:
    """Scores and intervals of sacreBLEU, and the processor seconds of each part."""
    start = time.process_time()
    hyps, refs = (list(read_lines(path)) for path in (hyp, ref))
    parts = {"reading": time.process_time() - start}
    scores, intervals = {}, {}
    for name, kind in METRICS.items():
        metric: Metric = kind()
        start = time.process_time()
        statistics: list[Any] = []
        for first in range(0, len(hyps), PIECE):
            piece = slice(first, first + PIECE)
            statistics += metric._extract_corpus_statistics(hyps[piece], [refs[piece]])
        scores[name] = float(metric._aggregate_and_compute(statistics).score)
        parts[name] = time.process_time() - start
        parts[f"{name} intervals"] = bootstrap_seconds(metric, statistics)
        del statistics
        checked = kind().corpus_score(hyps[:check_lines], [refs[:check_lines]], n_bootstrap=ALL)
        intervals |= {f"{name}_mean": float(checked._mean), f"{name}_margin": float(checked._ci)}
    rounded = {name: round(seconds, 1) for name, seconds in parts.items()}
    return {"all": scores, "few": intervals, "seconds": sum(parts.values()), "parts": rounded}


def bootstrap_seconds(metric: Metric, statistics: list[Any]) -> float:
    """Processor seconds of all samples, from those of few and of more."""
    seconds = []
    for count in (FEW, MORE):
        start = time.process_time()
        _bootstrap_resample(statistics, metric, count)
        seconds.append(time.process_time() - start)
    return seconds[0] + (seconds[1] - seconds[0]) * (ALL - FEW) / (MORE - FEW)


if __name__ == "__main__":
    main()
