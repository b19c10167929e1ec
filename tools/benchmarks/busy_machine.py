"""Speed of training beside processes that use the cores, by how long waiting threads spin (GOMP_SPINCOUNT).

    python tools/benchmarks/busy_machine.py [--updates 150] [--rounds 3]

The recipe quickstart is trained with one thread per core, first on free cores, then beside one process that computes
all the time: with the setting of `mtkit train`, with GNU OpenMP's own, and with threads that sleep at once. The
settings take turns; printed are tokens/s of each round, from the last of three log lines. Nothing else may run on the
machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

SETTINGS: Mapping[str, Mapping[str, str]] = {
    "of mtkit": {},
    "of GNU OpenMP": {"GOMP_SPINCOUNT": "300000"},
    "sleep at once": {"OMP_WAIT_POLICY": "PASSIVE"},
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--updates", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for label, busy in (("free cores", 0), ("one busy process", 1)):
        speeds: dict[str, list[float]] = {name: [] for name in SETTINGS}
        with computing(busy):
            for _ in range(options.rounds):
                for name, variables in SETTINGS.items():
                    speeds[name].append(tokens_per_second(options.updates, variables))
        own = median(speeds["of mtkit"])
        for name, each in speeds.items():
            rounds = ", ".join(f"{speed:,.0f}" for speed in each)
            print(f"{label:18} {name:15} {rounds} tokens/s; setting of mtkit / this: {own / median(each):.2f}")


@contextmanager
def computing(count: int) -> Iterator[None]:
    """Other processes that never wait."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def tokens_per_second(updates: int, variables: Mapping[str, str]) -> float:
    """Speed at the end of a short training in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        keys = {"max_updates": updates, "log_every": updates // 3, "validate_every": updates + 1}
        overrides = [f"training.{key}={value}" for key, value in keys.items()]
        command = [sys.executable, "-m", "mtkit", "train", "quickstart", "--run-dir", name, *overrides]
        subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True)
        events = [json.loads(line) for line in (Path(name) / "log.jsonl").read_text().splitlines()]
    return float([event["tokens_per_second"] for event in events if event["event"] == "train"][-1])


if __name__ == "__main__":
    main()
