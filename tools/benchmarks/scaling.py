"""How cost grows with the number of processes: tokens a second of 1, 2 and 4, and what that makes of many machines.

    python tools/benchmarks/scaling.py [--processes 1 2 4] [--updates 60] [--batch-tokens 4096] [--parallel ddp]
                                       [--project 64 --parameters 65e6 --bandwidth 25e9 --tokens-per-gpu 8192
                                        --tokens-per-second 300000]

Model T on Multi30k (see model_t.py) is trained by `torchrun`, with as many micro-batches an update as processes and one
thread each; source and target tokens a second are those of the log, without its first line. The projection is
arithmetic: an update takes as long as a GPU computes on its own tokens, and then as the exchange of the gradient, which
does not overlap here: 2 (N - 1)/N · 4 bytes a parameter through a ring (Patarasuk & Yuan 2009,
https://doi.org/10.1016/j.jpdc.2008.09.002) over the slowest link.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from model_t import write_recipe

REPORT_EVERY = 20  # updates


def main() -> None:
    """Measure, print, project."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--updates", type=int, default=3 * REPORT_EVERY)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--parallel", choices=["ddp", "fsdp"], default="ddp")
    parser.add_argument("--project", type=int, help="number of GPUs")
    parser.add_argument("--parameters", type=float, default=65e6, help="of the model; Transformer-base has 65 million")
    parser.add_argument("--bandwidth", type=float, default=25e9, help="bytes a second between two machines")
    parser.add_argument("--tokens-per-gpu", type=float, default=8192, help="source and target, of an update")
    parser.add_argument("--tokens-per-second", type=float, default=300_000, help="of one GPU alone; measure it: gpu.py")
    options = parser.parse_args()
    print("| processes | source and target tokens/s | of one, times |\n|---|---|---|")
    first = None
    for processes in options.processes:
        found = measure(processes, options.updates, options.batch_tokens, options.parallel)
        first = first or found
        print(f"| {processes} | {found:,.0f} | {found / first:.2f} |", flush=True)
    for count in (1, 8, options.project) if options.project else ():
        print(project(options, count))


def measure(processes: int, updates: int, batch_tokens: int, parallel: str) -> float:
    """The middle of the log's tokens a second."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        recipe = write_recipe(folder, updates=updates, report_every=REPORT_EVERY)
        keys = [
            f"training.micro_batches={processes}",
            f"training.batch_tokens={batch_tokens}",
            "training.precision=float32",
        ]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [*torchrun, "-m", "mtkit", "train", str(recipe), *keys, f"training.parallel={parallel}"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run([*command, "--run-dir", folder / "run"], env=environment, capture_output=True)
        if done.returncode:
            raise SystemExit(f"{processes} processes failed:\n{done.stderr.decode()[-3000:]}")
        events = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().rstrip("\n").split("\n")]
    reports = [event for event in events if event["event"] == "train" and event["update"] > REPORT_EVERY]
    return median(report["tokens_per_second"] for report in reports)


def project(options: argparse.Namespace, count: int) -> str:
    """A sentence about that many GPUs."""
    computing = options.tokens_per_gpu / options.tokens_per_second
    exchanging = 2 * (count - 1) / count * 4 * options.parameters / options.bandwidth
    share = computing / (computing + exchanging)
    return (
        f"{count} GPUs: {count * options.tokens_per_second * share:,.0f} tokens/s, {share:.0%} of {count} times one "
        f"({computing * 1e3:.0f} ms of computing and {exchanging * 1e3:.0f} ms of exchange an update)"
    )


if __name__ == "__main__":
    main()
