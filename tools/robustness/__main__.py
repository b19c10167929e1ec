"""Long form of the robustness tests: `python -m tools.robustness --all --report docs/reliability.md`.

Each experiment writes a record of every trial to FOLDER/records/NAME.jsonl, and continues after those that are there.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import time
from functools import partial
from pathlib import Path

from mtkit.io.lock import RunLock
from tools.robustness.experiments import NAMES
from tools.robustness.harness import experiment
from tools.robustness.harness.client import HANG, ForkServer
from tools.robustness.harness.lab import Lab
from tools.robustness.harness.report import write_report


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.robustness", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="run all experiments in their long form")
    which.add_argument("--only", choices=NAMES, nargs="+", help="run these experiments")
    parser.add_argument("--count", type=int, help="number of trials of each experiment")
    parser.add_argument("--group", nargs="+", default=[], help="only trials of these groups")
    parser.add_argument("--trial", help="repeat this trial of the experiment and print its end")
    parser.add_argument("--retry", action="store_true", help="perform trials that failed once more")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no trial after these; continue later")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hang", type=float, default=HANG, help="seconds after which a command counts as hanging")
    parser.add_argument("--folder", type=Path, default=Path("build/robustness"), help="folder of the trials")
    parser.add_argument("--report", type=Path, help="write the report of all records to this file")
    return parser.parse_args()


def main() -> int:
    """Run the chosen experiments; return 1 if a promise was broken."""
    asked = arguments()
    folder = asked.folder.absolute()
    names = NAMES if asked.all else asked.only or ()
    start = time.monotonic()
    with RunLock(folder), ForkServer() as server:
        lab = Lab(folder, server, asked.hang)
        for name in names:
            module = importlib.import_module(f"tools.robustness.experiments.{name}")
            trials = module.trials(lab, asked.seed)
            if asked.trial is not None:
                return repeat(trials, asked.trial)
            chosen = experiment.draw(trials, asked.count or module.COUNT, asked.seed, asked.group)
            records = folder / "records" / f"{name}.jsonl"
            if asked.retry:
                experiment.forget_failures(records)
            announce = partial(print, f"{name}:", flush=True)
            experiment.perform(chosen, records, announce, until=start + 60 * asked.minutes)
            result = experiment.result(name, records)
            print(f"{name}: {result.survived:,} of {result.tried:,} survived, {result.seconds:.0f} s", flush=True)
    results = [experiment.result(name, folder / "records" / f"{name}.jsonl") for name in NAMES]
    if asked.report is not None:
        write_report(asked.report, results)
    return int(any(result.failures for result in results if result.name in names))


def repeat(trials: list[experiment.Trial], name: str) -> int:
    """Repeat one trial."""
    for trial in trials:
        if trial.name == name:
            ending = trial.attempt()
            print(f"{ending.label}: {ending.fault or 'survived'}")
            return int(ending.fault is not None)
    print(f"there is no trial {name!r}; names are in FOLDER/records")
    return 2


if __name__ == "__main__":
    sys.exit(main())
